/* Client input of the trace protocol: "METHOD PATH\nBODY" over HTTP; the same bytes as a setting with values over
 * gRPC, and as a traceparent. The answer must be JSON that our strict reader accepts, and a refusal must change
 * nothing. */
#include "trace/context.h"
#include "trace/json.h"
#include "trace/manager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sonde_trace_manager *manager;
static struct sonde_trace_model *model;

static char *ask(const char *method, const char *path, const char *body, size_t size, unsigned *ret_status)
{
    char *answer = NULL;
    if (sonde_trace_http(manager, method, path, body, size, ret_status, &answer) < 0)
        return NULL;
    struct json *json;
    const char *why;
    size_t offset;
    if (json_read(answer, strlen(answer), &json, &why, &offset) < 0)
        abort();
    json_free(json);
    return answer;
}

static void try_http(char *text, size_t size)
{
    unsigned status;
    char *space = memchr(text, ' ', size), *line = memchr(text, '\n', size);
    if (!line || !space || space > line)
        return;
    *space = *line = '\0';
    char *before = ask("GET", "/v2/trace/setting", NULL, 0, &status);
    char *answer = ask(text, space + 1, line + 1, size - (size_t)(line + 1 - text), &status);
    if (answer && status != 200) {
        char *after = ask("GET", "/v2/trace/setting", NULL, 0, &status);
        if (strcmp(before, after) != 0)
            abort();
        free(after);
    }
    free(before);
    free(answer);
}

/* Words by '\n': the name, then values. */
static void try_grpc(const char *text)
{
    char *copy = strdup(text), *p = copy;
    const char *words[8] = {NULL};
    size_t count = 0;
    while (copy && count < 8 && p) {
        words[count++] = strsep(&p, "\n");
    }
    struct sonde_trace_setting setting = {words[0], words + 1, count ? count - 1 : 0};
    struct sonde_trace_reply *reply = NULL;
    char why[64];
    if (count && sonde_trace_grpc(manager, NULL, &setting, 1, &reply, why, sizeof(why)) == 0)
        sonde_trace_reply_free(reply);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!manager) {
        struct sonde_trace_config *config;
        if (sonde_trace_config_new(&config) < 0 ||
            sonde_trace_config_set(config, "--trace-config", "triton,file=/nonexistent/t", NULL, 0) < 0 ||
            sonde_trace_manager_new(config, NULL, &manager, NULL, 0) < 0 ||
            sonde_trace_model_new(manager, "m", 1, &model) < 0)
            abort();
        sonde_trace_config_free(config);
    }
    char *text = malloc(size + 1);
    struct trace_context context;
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    trace_context_parse(text, &context);
    try_grpc(text);
    try_http(text, size);
    free(text);
    return 0;
}
