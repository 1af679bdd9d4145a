/* Fields of the trace protocol. Error texts are Triton's; values that Triton accepts although they are obviously
 * wrong ("5x", "-1", an unknown level or setting) are rejected. */
#include "protocol.h"

#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 4))) static int refuse(struct trace_reason *reason, int code, const char *format, ...)
{
    va_list arguments;
    reason->grpc_code = code;
    va_start(arguments, format);
    vsnprintf(reason->text, sizeof(reason->text), format, arguments);
    va_end(arguments);
    return -EINVAL;
}

static const struct field {
    enum trace_field field;
    const char *name;
    int64_t min, max;
} fields[] = {
    {TRACE_LEVEL, "trace_level", 0, 0},
    {TRACE_RATE, "trace_rate", 0, UINT32_MAX},
    {TRACE_COUNT, "trace_count", -1, INT32_MAX},
    {TRACE_LOG_FREQUENCY, "log_frequency", 0, UINT32_MAX},
};
#define FIELD_COUNT (sizeof(fields) / sizeof(fields[0]))

enum trace_field trace_field_named(const char *name, struct trace_reason *reason)
{
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (strcmp(fields[i].name, name) == 0)
            return fields[i].field;
    if (strcmp(name, "trace_file") == 0)
        refuse(reason, 12, "trace file location can not be updated through network protocol");
    else
        refuse(reason, 3,
               "Unknown trace setting '%.200s'. Expect trace_level, trace_rate, trace_count or log_frequency", name);
    return 0;
}

int trace_update_level(struct trace_update *u, const char *value, size_t count, struct trace_reason *reason)
{
    unsigned level;
    if (trace_parse_level(value, false, &level) < 0)
        return refuse(reason, 3, "Unknown trace level '%.200s'. Expect 'OFF', 'TIMESTAMPS' or 'TENSORS'", value);
    if (level == 0 && count > 1)
        return refuse(reason, 3, "Expect only one trace level 'OFF' is specified");
    u->set |= TRACE_LEVEL;
    u->values.level |= level;
    return 0;
}

int trace_update_number(struct trace_update *u, enum trace_field field, const char *value, enum trace_form form,
                        struct trace_reason *reason)
{
    const struct field *f = fields;
    while (f->field != field)
        f++;
    int64_t number = 0;
    /* Parse with a wide range first: -2 has its own error message, but -99999999999 is out of range. */
    int r = trace_parse_integer(value, INT32_MIN, UINT32_MAX, &number);
    if (r == -EINVAL)
        return refuse(reason, 3, "Unable to parse '%s', got: %.200s", f->name, value);
    if (r == 0 && field == TRACE_COUNT && number < -1)
        return refuse(reason, 3, "Unable to parse 'trace_count'. Expecting value >= -1, got:%s%s",
                      form == TRACE_FORM_GRPC ? " " : "", value);
    if (r < 0 || number < f->min || number > f->max)
        return refuse(reason, 3, "Unable to parse '%s', value is out of range [ %lld, %lld ], got: %.200s", f->name,
                      (long long)f->min, (long long)f->max, value);
    u->set |= field;
    if (field == TRACE_RATE)
        u->values.rate = (uint32_t)number;
    else if (field == TRACE_COUNT)
        u->values.count = (int32_t)number;
    else
        u->values.log_frequency = (uint32_t)number;
    return 0;
}

int trace_apply(struct sonde_trace_manager *m, const char *model, const struct trace_update *u,
                struct trace_values *ret_values, struct trace_reason *reason)
{
    const char *why = "";
    int r = trace_manager_update(m, model, u, ret_values, &why);
    if (r == -ENOENT)
        return refuse(reason, 3, "Request for unknown model : %.300s", model);
    if (r == -ENOMEM)
        return refuse(reason, 8, "out of memory");
    return r < 0 ? refuse(reason, 3, "Attempting to set invalid trace setting :%s", why) : 0;
}

struct setting_visitor {
    void (*each)(void *argument, const char *name, const char *const *texts, size_t count);
    void *argument;
};

static void show_text(const struct setting_visitor *s, const char *name, const char *text)
{
    s->each(s->argument, name, &text, 1);
}

static void show_number(const struct setting_visitor *s, const char *name, int64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)number);
    show_text(s, name, text);
}

/* Several resources in one value, as in OTEL_RESOURCE_ATTRIBUTES, because a JSON name may occur only once. */
static void show_resources(const struct setting_visitor *s, const struct sonde_trace_config *c)
{
    struct trace_text list = {0};
    for (unsigned i = 0; i < c->resource_count; i++) {
        if (i > 0)
            trace_text_putc(&list, ',');
        trace_text_puts(&list, c->resources[i]);
    }
    trace_text_putc(&list, '\0');
    if (c->resource_count > 0 && !list.failed)
        show_text(s, "resource", list.data);
    trace_text_free(&list);
}

void trace_show(const struct sonde_trace_manager *m, const struct trace_values *v,
                void (*each)(void *argument, const char *name, const char *const *texts, size_t count), void *argument)
{
    const struct setting_visitor s = {each, argument};
    const struct sonde_trace_config *c = m->config;
    static const char *const off = "OFF", *const both[] = {"TIMESTAMPS", "TENSORS"};
    if (v->level == 0)
        each(argument, "trace_level", &off, 1);
    else
        each(argument, "trace_level", both + !(v->level & SONDE_TRACE_TIMESTAMPS),
             v->level == (SONDE_TRACE_TIMESTAMPS | SONDE_TRACE_TENSORS) ? 2 : 1);
    show_number(&s, "trace_rate", v->rate);
    show_number(&s, "trace_count", v->count);
    if (c->mode == TRACE_MODE_TRITON) {
        show_number(&s, "log_frequency", v->log_frequency);
        show_text(&s, "trace_file", c->file);
        show_text(&s, "trace_mode", "triton");
        return;
    }
    show_text(&s, "trace_mode", "opentelemetry");
    if (*c->url)
        show_text(&s, "url", c->url);
    show_resources(&s, c);
    show_number(&s, "bsp_max_queue_size", c->bsp_max_queue_size);
    show_number(&s, "bsp_schedule_delay", c->bsp_schedule_delay_ms);
    show_number(&s, "bsp_max_export_batch_size", c->bsp_max_export_batch_size);
}
