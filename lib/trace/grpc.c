/* The trace protocol over gRPC: the call TraceSetting, whose message is a map from setting to values. */
#include "../export.h"
#include "protocol.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLY_SETTINGS_MAX 12

struct sonde_trace_reply {
    struct sonde_trace_setting settings[REPLY_SETTINGS_MAX];
    size_t count;
    bool failed;
};

static int read_setting(const struct sonde_trace_setting *s, struct trace_update *u, struct trace_reason *reason)
{
    enum trace_field field = trace_field_named(s->name, reason);
    if (!field)
        return -EINVAL;
    if ((u->set | u->clear) & field) {
        reason->grpc_code = 3;
        snprintf(reason->text, sizeof(reason->text), "'%s' is given twice", s->name);
        return -EINVAL;
    }
    if (s->value_count == 0) {
        u->clear |= field;
        return 0;
    }
    if (field != TRACE_LEVEL) {
        if (s->value_count == 1)
            return trace_update_number(u, field, s->values[0], TRACE_FORM_GRPC, reason);
        reason->grpc_code = 3;
        snprintf(reason->text, sizeof(reason->text), "expect only 1 value for '%s'", s->name);
        return -EINVAL;
    }
    int r = 0;
    for (size_t i = 0; i < s->value_count && r == 0; i++)
        r = trace_update_level(u, s->values[i], s->value_count, reason);
    return r;
}

/* One allocation per setting: the pointers, then the texts. */
static void add_setting(void *argument, const char *name, const char *const *texts, size_t count)
{
    struct sonde_trace_reply *reply = argument;
    size_t size = count * sizeof(char *);
    for (size_t i = 0; i < count; i++)
        size += strlen(texts[i]) + 1;
    char **values = reply->count < REPLY_SETTINGS_MAX ? malloc(size) : NULL;
    if (!values) {
        reply->failed = true;
        return;
    }
    char *p = (char *)(values + count);
    for (size_t i = 0; i < count; i++) {
        values[i] = p;
        p = stpcpy(p, texts[i]) + 1;
    }
    reply->settings[reply->count++] =
        (struct sonde_trace_setting){.name = name, .values = (const char *const *)values, .value_count = count};
}

SONDE_EXPORT void sonde_trace_reply_free(struct sonde_trace_reply *reply)
{
    if (!reply)
        return;
    for (size_t i = 0; i < reply->count; i++)
        free((void *)(uintptr_t)reply->settings[i].values);
    free(reply);
}

SONDE_EXPORT const struct sonde_trace_setting *sonde_trace_reply_settings(const struct sonde_trace_reply *reply,
                                                                          size_t *ret_count)
{
    *ret_count = reply->count;
    return reply->settings;
}

static int update(struct sonde_trace_manager *m, const char *model, const struct sonde_trace_setting *settings,
                  size_t count, struct trace_values *ret_values, struct trace_reason *reason)
{
    struct trace_update u = {0};
    int r = trace_apply(m, model, NULL, ret_values, reason); /* first check that the model exists */
    for (size_t i = 0; i < count && r == 0; i++)
        r = read_setting(&settings[i], &u, reason);
    return r < 0 || count == 0 ? r : trace_apply(m, model, &u, ret_values, reason);
}

SONDE_EXPORT int sonde_trace_grpc(struct sonde_trace_manager *m, const char *model,
                                  const struct sonde_trace_setting *settings, size_t count,
                                  struct sonde_trace_reply **ret_reply, char *why, size_t why_size)
{
    struct trace_values values;
    struct trace_reason reason = {8, "out of memory"};
    if (update(m, model && *model ? model : NULL, settings, count, &values, &reason) < 0) {
        if (why_size)
            snprintf(why, why_size, "%s", reason.text);
        return reason.grpc_code;
    }
    struct sonde_trace_reply *reply = calloc(1, sizeof(*reply));
    if (reply)
        trace_show(m, &values, add_setting, reply);
    if (!reply || reply->failed) {
        sonde_trace_reply_free(reply);
        if (why_size)
            snprintf(why, why_size, "out of memory");
        return 8;
    }
    *ret_reply = reply;
    return 0;
}
