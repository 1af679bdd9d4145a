/* The trace protocol against the recorded answers of Triton 2.51 (triton-protocol.jsonl, 91 calls in order), then what
 * the recording does not cover: OpenTelemetry mode, layers, gRPC. Where Sonde is stricter, `stricter` says how and
 * why. */
#include "fixture.h"
#include "trace/json.h"
#include "trace/text.h"
#include "transport.h"

#include <errno.h>

#define WHERE_IT_STANDS "\"log_frequency\":\"0\",\"trace_file\":\"$FILE\",\"trace_mode\":\"triton\"}"

static const struct {
    const char *body; /* of the request */
    unsigned status;
    const char *answer;
    const char *reason;
} stricter[] = {
    /* Text that is not a number is refused. */
    {"{\"trace_rate\":\"-1\"}", 400,
     "{\"error\":\"Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: -1\"}",
     "4294967295 there"},
    {"{\"trace_rate\":\"5x\"}", 400, "{\"error\":\"Unable to parse 'trace_rate', got: 5x\"}", "5 there"},
    {"{\"trace_rate\":\"1.4\"}", 400, "{\"error\":\"Unable to parse 'trace_rate', got: 1.4\"}", "1 there"},
    {"{\"log_frequency\":\"-3\"}", 400,
     "{\"error\":\"Unable to parse 'log_frequency', value is out of range [ 0, 4294967295 ], got: -3\"}",
     "4294967293 there"},
    /* Triton takes an unknown level for OFF; also in lower case, which is a level here. */
    {"{\"trace_level\":[\"nope\"]}", 400,
     "{\"error\":\"Unknown trace level 'nope'. Expect 'OFF', 'TIMESTAMPS' or 'TENSORS'\"}", "OFF there"},
    {"{\"trace_level\":[\"timestamps\"]}", 200,
     "{\"trace_level\":[\"TIMESTAMPS\"],\"trace_rate\":\"1\",\"trace_count\":\"-1\"," WHERE_IT_STANDS,
     "levels in any case"},
    /* A setting that cannot be changed is refused, not ignored. */
    {"{\"trace_mode\":\"opentelemetry\"}", 400,
     "{\"error\":\"Unknown trace setting 'trace_mode'. Expect trace_level, trace_rate, trace_count or log_frequency\"}",
     "ignored there"},
    {"{\"unknown\":\"1\"}", 400,
     "{\"error\":\"Unknown trace setting 'unknown'. Expect trace_level, trace_rate, trace_count or log_frequency\"}",
     "ignored there"},
    {"{\"url\":\"http://x\"}", 400,
     "{\"error\":\"Unknown trace setting 'url'. Expect trace_level, trace_rate, trace_count or log_frequency\"}",
     "ignored there"},
    /* A body that is not an object. */
    {"[1]", 400, "{\"error\":\"attempt to access JSON non-object as object\"}", "ignored there"},
    {"\"x\"", 400, "{\"error\":\"attempt to access JSON non-object as object\"}", "ignored there"},
    {"null", 400, "{\"error\":\"attempt to access JSON non-object as object\"}", "ignored there"},
    /* A client error is a 400, not a 500; the text stays. */
    {"{\"trace_rate\":10}", 400, NULL, "500 there"},
    {"{\"trace_rate\":[\"5\"]}", 400, NULL, "500 there"},
    {"{\"trace_rate\":[\"5\",\"6\"]}", 400, NULL, "500 there"},
    {"{\"trace_level\":\"TIMESTAMPS\"}", 400, NULL, "500 there"},
    {"{", 400, NULL, "500 there"},
};

#define NOTHING                                                                                                        \
    "{\"trace_level\":[\"TIMESTAMPS\",\"TENSORS\"],\"trace_rate\":\"1\",\"trace_count\":\"-1\"," WHERE_IT_STANDS

/* A value as the client sent it. */
static uint32_t put_value(struct trace_text *out, const struct json_value *values, uint32_t at)
{
    const struct json_value *v = &values[at];
    if (v->type == JSON_STRING) {
        trace_text_put_json(out, v->text, v->text_size);
    } else if (v->type == JSON_NUMBER) {
        trace_text_put(out, v->text, v->text_size);
    } else if (v->type == JSON_ARRAY || v->type == JSON_OBJECT) {
        trace_text_putc(out, v->type == JSON_ARRAY ? '[' : '{');
        uint32_t child = at + 1;
        for (uint32_t i = 0; i < v->child_count; i++) {
            if (i > 0)
                trace_text_putc(out, ',');
            if (v->type == JSON_OBJECT) {
                trace_text_put_json(out, values[child].name, values[child].name_size);
                trace_text_putc(out, ':');
            }
            child = put_value(out, values, child);
        }
        trace_text_putc(out, v->type == JSON_ARRAY ? ']' : '}');
    } else {
        trace_text_puts(out, v->type == JSON_NULL ? "null" : v->type == JSON_TRUE ? "true" : "false");
    }
    return v->next;
}

/* `text` with $FILE replaced. */
static char *with_file(const char *text, const char *file)
{
    struct trace_text out = {0};
    const char *found = strstr(text, "$FILE");
    trace_text_put(&out, text, found ? (size_t)(found - text) : strlen(text));
    if (found) {
        trace_text_puts(&out, file);
        trace_text_puts(&out, found + 5);
    }
    return trace_text_take(&out);
}

struct call {
    const char *method, *path;
    char *body; /* NULL: none */
    unsigned status;
    const char *answer;
};

static void read_call(const struct json_value *values, struct call *ret)
{
    uint32_t request = 1, at = 2;
    assert_string_equal(values[request].name, "request");
    *ret = (struct call){.method = values[at].text, .path = values[at + 1].text};
    if (values[request].child_count > 2) {
        const struct json_value *body = &values[at + 2];
        struct trace_text text = {0};
        if (body->type == JSON_STRING)
            trace_text_put(&text, body->text, body->text_size);
        else if (body->type != JSON_NULL)
            put_value(&text, values, at + 2);
        ret->body = trace_text_take(&text);
    }
    const struct json_value *status = &values[values[request].next];
    ret->status = (unsigned)atoi(status->text);
    ret->answer = values[status->next].text;
}

/* Expected answer to this call: Triton's, or the stricter one. */
static int decide(struct call *c)
{
    if (strstr(c->path, "/versions/")) { /* 2.51 does not know this path; newer versions do */
        c->status = 200;
        c->answer = NOTHING;
        return 1;
    }
    if (strcmp(c->method, "POST") != 0)
        return 0;
    if (!c->body || !*c->body) { /* 500 there; "an empty body is allowed" */
        c->status = 200;
        c->answer = NOTHING;
        return 1;
    }
    for (size_t i = 0; i < sizeof(stricter) / sizeof(stricter[0]); i++)
        if (strcmp(stricter[i].body, c->body) == 0) {
            c->status = stricter[i].status;
            c->answer = stricter[i].answer ? stricter[i].answer : c->answer;
            return 1;
        }
    return 0;
}

static void check_call(struct fixture *f, const struct call *c, int number)
{
    char *expected = with_file(c->answer, f->file), *answer = NULL;
    unsigned status = 0;
    assert_int_equal(
        sonde_trace_http(f->manager, c->method, c->path, c->body, c->body ? strlen(c->body) : 0, &status, &answer), 0);
    if (status != c->status || strcmp(answer, expected) != 0)
        fail_msg("call %d: %s %s %s\n  is   %u %s\n  not  %u %s", number, c->method, c->path, c->body ? c->body : "",
                 status, answer, c->status, expected);
    sonde_trace_free(answer);
    free(expected);
}

/* The next call of a recording; NULL at its end. */
static struct json *next_line(FILE *in)
{
    char line[4096];
    struct json *json;
    const char *why = "";
    size_t offset;
    if (!fgets(line, sizeof(line), in))
        return NULL;
    assert_int_equal(json_read(line, strlen(line), &json, &why, &offset), 0);
    return json;
}

static void test_answers_match_a_recorded_triton(void **state)
{
    (void)state;
    struct fixture f;
    struct sonde_trace_model *simple;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS", "level=TENSORS");
    assert_int_equal(sonde_trace_model_new(f.manager, "simple", 1, &simple), 0);
    FILE *in = fopen(TRITON_PROTOCOL, "r");
    assert_non_null(in);
    int calls = 0, as_there = 0;
    struct json *json;
    while ((json = next_line(in))) {
        struct call c;
        read_call(json_values(json), &c);
        as_there += !decide(&c);
        check_call(&f, &c, calls + 1);
        free(c.body);
        json_free(json);
        calls++;
    }
    fclose(in);
    assert_int_equal(calls, 91);
    assert_int_equal(as_there, 91 - 2 * 17 - 3);
    sonde_trace_model_free(simple);
    fixture_close(&f);
}

/* 260 steps on a real server with random updates of all layers between requests: the remaining counts show which
 * requests were sampled. Started with rate=3, count=40, level=TIMESTAMPS. */
static void test_sampling_matches_a_recorded_triton(void **state)
{
    (void)state;
    static const char *const names[] = {"simple", "ens", "bls"};
    struct fixture f;
    struct sonde_trace_model *models[3];
    fixture_open(&f, "rate=3", "count=40", "level=TIMESTAMPS");
    for (int i = 0; i < 3; i++)
        assert_int_equal(sonde_trace_model_new(f.manager, names[i], 1, &models[i]), 0);
    FILE *in = fopen(TRITON_SEQUENCE, "r");
    assert_non_null(in);
    int calls = 0, requests = 0;
    struct json *json;
    while ((json = next_line(in))) {
        const struct json_value *first = &json_values(json)[1];
        if (strcmp(first->name, "infer") == 0) {
            for (int i = 0; i < 3; i++)
                if (strcmp(first->text, names[i]) == 0)
                    sonde_trace_end(sonde_trace_start(models[i], NULL), SONDE_TRACE_OK, NULL);
            requests++;
        } else {
            struct call c;
            read_call(json_values(json), &c);
            check_call(&f, &c, ++calls);
            free(c.body);
        }
        json_free(json);
    }
    fclose(in);
    assert_true(calls > 100 && requests > 100);
    for (int i = 0; i < 3; i++)
        sonde_trace_model_free(models[i]);
    fixture_close(&f);
}

static void expect_http(struct sonde_trace_manager *m, const char *method, const char *path, const char *body,
                        unsigned status, const char *expected)
{
    char *answer = NULL;
    unsigned got = 0;
    assert_int_equal(sonde_trace_http(m, method, path, body, body ? strlen(body) : 0, &got, &answer), 0);
    if (got != status || !strstr(answer, expected))
        fail_msg("%s %s %s\n  is   %u %s\n  not  %u %s", method, path, body ? body : "", got, answer, status, expected);
    sonde_trace_free(answer);
}

#define GLOBAL "/v2/trace/setting"
#define MODEL  "/v2/models/m/trace/setting"

static void test_layers_field_by_field(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=7", "level=TIMESTAMPS", "count=100");
    expect_http(f.manager, "POST", MODEL, "{\"trace_rate\":\"3\"}", 200,
                "\"trace_rate\":\"3\",\"trace_count\":\"100\"");
    expect_http(f.manager, "POST", GLOBAL, "{\"trace_rate\":\"9\",\"trace_count\":\"5\"}", 200,
                "\"trace_rate\":\"9\",\"trace_count\":\"5\"");
    /* The model keeps its own settings and inherits the rest. */
    expect_http(f.manager, "GET", MODEL, NULL, 200, "\"trace_rate\":\"3\",\"trace_count\":\"5\"");
    expect_http(f.manager, "POST", MODEL, "{\"trace_count\":\"50\"}", 200,
                "\"trace_rate\":\"3\",\"trace_count\":\"50\"");
    expect_http(f.manager, "POST", GLOBAL, "{\"trace_count\":\"6\"}", 200, "\"trace_count\":\"6\"");
    expect_http(f.manager, "GET", MODEL, NULL, 200, "\"trace_rate\":\"3\",\"trace_count\":\"50\"");
    /* Cleared fields fall back, one by one; the last one removes the entry. */
    expect_http(f.manager, "POST", MODEL, "{\"trace_rate\":null}", 200, "\"trace_rate\":\"9\",\"trace_count\":\"50\"");
    expect_http(f.manager, "POST", MODEL, "{\"trace_count\":null}", 200, "\"trace_rate\":\"9\",\"trace_count\":\"6\"");
    expect_http(f.manager, "POST", GLOBAL, "{\"trace_rate\":null,\"trace_count\":null}", 200,
                "\"trace_rate\":\"7\",\"trace_count\":\"100\"");
    expect_http(f.manager, "GET", MODEL, NULL, 200, "\"trace_rate\":\"7\",\"trace_count\":\"100\"");
    /* All or nothing: the valid half of an invalid body is not applied. */
    expect_http(f.manager, "POST", GLOBAL, "{\"trace_rate\":\"2\",\"trace_count\":\"x\"}", 400,
                "Unable to parse 'trace_count', got: x");
    expect_http(f.manager, "POST", GLOBAL, "{\"trace_rate\":\"2\",\"trace_file\":\"x\"}", 501, "trace file location");
    expect_http(f.manager, "GET", GLOBAL, NULL, 200, "\"trace_rate\":\"7\"");
    fixture_close(&f);
}

static void test_unusable_settings_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "level=TIMESTAMPS");
    expect_http(f.manager, "POST", GLOBAL, "{\"trace_rate\":\"0\"}", 400,
                "{\"error\":\"Attempting to set invalid trace setting :sample rate must be non-zero\"}");
    expect_http(f.manager, "POST", MODEL, "{\"trace_rate\":\"0\"}", 400, "sample rate must be non-zero");
    expect_http(f.manager, "POST", GLOBAL, "{\"trace_rate\":\"0\",\"trace_level\":[\"OFF\"]}", 200,
                "\"trace_rate\":\"0\"");
    fixture_close(&f);

    /* Triton starts with a level and no file, and silently traces nothing; Sonde reports it. */
    struct sonde_trace_config *config;
    struct sonde_trace_manager *m;
    struct sonde_trace_model *model;
    struct fixture reported = {0};
    struct sonde_trace_options options = {sizeof(options), .on_error = fixture_on_error, .argument = &reported};
    assert_int_equal(sonde_trace_config_new(&config), 0);
    assert_int_equal(sonde_trace_config_set(config, "--trace-config", "level=TIMESTAMPS", NULL, 0), 0);
    assert_int_equal(sonde_trace_config_set(config, "--trace-config", "rate=1", NULL, 0), 0);
    assert_int_equal(sonde_trace_manager_new(config, &options, &m, NULL, 0), 0);
    assert_int_equal(reported.errors, 1);
    assert_string_equal(reported.message, "trace file name is not given: nothing is traced");
    assert_int_equal(sonde_trace_model_new(m, "m", 1, &model), 0);
    assert_null(sonde_trace_start(model, NULL));
    expect_http(m, "POST", GLOBAL, "{\"trace_rate\":\"9\"}", 400,
                "{\"error\":\"Attempting to set invalid trace setting :trace file name is not given\"}");
    expect_http(m, "GET", GLOBAL, NULL, 200, "\"trace_file\":\"\"");
    sonde_trace_model_free(model);
    sonde_trace_manager_free(m);
    assert_int_equal(sonde_trace_config_set(config, "--trace-config", "triton,file=/tmp/x", NULL, 0), 0);
    assert_int_equal(sonde_trace_config_set(config, "--trace-config", "rate=0", NULL, 0), 0);
    assert_int_equal(sonde_trace_manager_new(config, &options, &m, NULL, 0), 0);
    assert_string_equal(reported.message, "sample rate must be non-zero: nothing is traced");
    sonde_trace_manager_free(m);
    sonde_trace_config_free(config);
}

static void test_other_paths_are_not_handled(void **state)
{
    (void)state;
    static const char *const others[] = {"/",
                                         "",
                                         "/v2/trace/settings",
                                         "/v2/trace/setting/",
                                         "/v2/models//trace/setting",
                                         "/v2/models/m/trace",
                                         "/v2/models/m/versions/trace/setting",
                                         "/v2/models/m/versions//trace/setting",
                                         "/v2/models/m/versions/x/trace/setting",
                                         "/v2/models/m/versions/1x/trace/setting",
                                         "/v2/models/m/x/trace/setting",
                                         "/v2/models/"};
    struct fixture f;
    fixture_open(&f, "level=TIMESTAMPS");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        unsigned status = 4711;
        char *answer = NULL;
        assert_int_equal(sonde_trace_http(f.manager, "GET", others[i], NULL, 0, &status, &answer), -ENOENT);
        assert_int_equal(status, 4711);
        assert_null(answer);
    }
    expect_http(f.manager, "HEAD", GLOBAL, NULL, 405, "{\"error\":\"Method Not Allowed\"}");
    expect_http(f.manager, "POST", "/v2/models/m/versions/2/trace/setting", "{\"trace_rate\":\"4\"}", 200,
                "\"trace_rate\":\"4\"");
    expect_http(f.manager, "GET", "/v2/models/a%20b/trace/setting", NULL, 400, "Request for unknown model : a%20b");
    expect_http(f.manager, "GET", "/v2/models/a\"\xff/trace/setting", NULL, 400, "unknown model : a\\\"\xef\xbf\xbd\"");
    fixture_close(&f);
}

static void test_hostile_bodies_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *body, *answer;
    } cases[] = {
        {"{\"trace_rate\":\"1\",\"trace_rate\":\"2\"}", "Duplicate name of object member. at 30"},
        {"{\"trace_rate\":\"1\"} x", "must not be followed by other values. at 19"},
        {"{\"trace_rate\":\"1\\u0000\"}", "a string holds a NUL"},
        {"{\"trace_rate\\u0000\":\"1\"}", "a name holds a NUL"},
        {"{\"trace_rate\":\"\xff\"}", "Invalid encoding in string."},
        {"{\"trace_rate\":\"\\ud800\"}", "surrogate pair"},
        {"{\"trace_rate\":\" 1\"}", "Unable to parse 'trace_rate', got:  1"},
        {"{\"trace_rate\":\"+1\"}", "Unable to parse 'trace_rate', got: +1"},
        {"{\"trace_rate\":\"0x10\"}", "Unable to parse 'trace_rate', got: 0x10"},
        {"{\"trace_rate\":\"99999999999999999999999999\"}",
         "value is out of range [ 0, 4294967295 ], got: 99999999999999999999999999"},
        {"{\"trace_count\":\"-99999999999999999999999999\"}", "value is out of range [ -1, 2147483647 ]"},
        {"{\"trace_count\":\"-\"}", "Unable to parse 'trace_count', got: -"},
        {"{\"trace_level\":[\"TIMESTAMPS\",null]}", "non-string as string"},
        {"{\"trace_level\":[[\"TIMESTAMPS\"]]}", "non-string as string"},
        {"{\"trace_level\":[\"off\",\"off\"]}", "Expect only one trace level 'OFF' is specified"},
        {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "Too many or too deep values."},
        {"{\"trace_rate\":\"1\"", "Missing a comma or } after an object member."},
        {"{\"trace_rate\"", "Missing a colon"},
        {"{trace_rate:1}", "Missing a name for object member. at 1"},
        {"nul", "Invalid value. at 0"},
        {" \n", "The document is empty."},
    };
    struct fixture f;
    fixture_open(&f, "level=TIMESTAMPS", "rate=77");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect_http(f.manager, "POST", GLOBAL, cases[i].body, 400, cases[i].answer);
    char *vast = malloc(JSON_SIZE_MAX + 2);
    memset(vast, ' ', JSON_SIZE_MAX + 1);
    vast[JSON_SIZE_MAX + 1] = '\0';
    expect_http(f.manager, "POST", GLOBAL, vast, 400, "The document is too large.");
    free(vast);
    expect_http(f.manager, "GET", GLOBAL, NULL, 200, "\"trace_rate\":\"77\"");
    fixture_close(&f);
}

static struct sonde_trace_manager *open_telemetry(const char *const *settings)
{
    struct sonde_trace_config *config;
    struct sonde_trace_manager *m;
    assert_int_equal(sonde_trace_config_new(&config), 0);
    for (; *settings; settings++)
        assert_int_equal(sonde_trace_config_set(config, "--trace-config", *settings, NULL, 0), 0);
    assert_int_equal(trace_manager_new(config, NULL, &transport_to_nowhere, &m, NULL, 0), 0);
    sonde_trace_config_free(config);
    return m;
}

/* As on the real server, which lists resources and bsp_* unordered, and a name twice for two resources. */
static void test_opentelemetry_mode(void **state)
{
    (void)state;
    struct sonde_trace_manager *m = open_telemetry(
        (const char *const[]){"mode=opentelemetry", "level=TIMESTAMPS", "rate=5", "opentelemetry,resource=a=b",
                              "opentelemetry,resource=c=d", "opentelemetry,url=http://localhost:9/v1/traces", NULL});
    static const char rest[] =
        "\"trace_mode\":\"opentelemetry\",\"url\":\"http://localhost:9/v1/traces\",\"resource\":\"a=b,c=d\","
        "\"bsp_max_queue_size\":\"2048\",\"bsp_schedule_delay\":\"5000\",\"bsp_max_export_batch_size\":\"512\"}";
    expect_http(
        m, "GET", GLOBAL, NULL, 200,
        "{\"trace_level\":[\"TIMESTAMPS\"],\"trace_rate\":\"5\",\"trace_count\":\"-1\",\"trace_mode\":\"opentelemetry\"");
    expect_http(m, "POST", GLOBAL, "{\"trace_rate\":\"3\",\"trace_count\":\"2\"}", 200,
                "\"trace_rate\":\"3\",\"trace_count\":\"2\"");
    expect_http(m, "POST", GLOBAL, "{\"log_frequency\":\"3\"}", 200, rest); /* accepted and not shown */
    expect_http(m, "POST", GLOBAL, "{\"trace_rate\":\"0\"}", 200, "\"trace_rate\":\"0\"");
    expect_http(m, "POST", GLOBAL, "{\"trace_file\":\"x\"}", 501, "trace file location");
    expect_http(m, "POST", GLOBAL, "{\"trace_level\":[\"OFF\"]}", 200, "[\"OFF\"]");
    sonde_trace_manager_free(m);
}

static char *grpc(struct sonde_trace_manager *m, const char *model, const struct sonde_trace_setting *settings,
                  size_t count)
{
    struct sonde_trace_reply *reply = NULL;
    struct trace_text out = {0};
    char why[SONDE_TRACE_WHY_SIZE];
    int code = sonde_trace_grpc(m, model, settings, count, &reply, why, sizeof(why));
    trace_text_put_i64(&out, code);
    if (code != 0) {
        assert_null(reply);
        trace_text_putc(&out, ' ');
        trace_text_puts(&out, why);
    } else {
        size_t n;
        const struct sonde_trace_setting *s = sonde_trace_reply_settings(reply, &n);
        for (size_t i = 0; i < n; i++) {
            trace_text_putc(&out, ' ');
            trace_text_puts(&out, s[i].name);
            for (size_t j = 0; j < s[i].value_count; j++) {
                trace_text_putc(&out, j ? ',' : '=');
                trace_text_puts(&out, s[i].values[j]);
            }
        }
        sonde_trace_reply_free(reply);
    }
    return trace_text_take(&out);
}

static void expect_grpc(struct fixture *f, const char *model, const char *name, const char *values,
                        const char *expected)
{
    char copy[128] = "";
    const char *list[4];
    size_t count = 0;
    if (values) {
        snprintf(copy, sizeof(copy), "%s", values);
        for (char *p = copy, *next; p; p = next) {
            next = strchr(p, '|');
            if (next)
                *next++ = '\0';
            list[count++] = p;
        }
    }
    struct sonde_trace_setting setting = {name, list, count};
    char *answer = grpc(f->manager, model, name ? &setting : NULL, name ? 1 : 0), *file = with_file(expected, f->file);
    assert_string_equal(answer, file);
    free(answer);
    free(file);
}

/* A real server gives the same answers, except that it accepts "nope", "-1" and "unknown". */
static void test_grpc_settings_map(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS", "level=TENSORS");
#define REST " trace_count=-1 log_frequency=0 trace_file=$FILE trace_mode=triton"
    expect_grpc(&f, "", NULL, NULL, "0 trace_level=TIMESTAMPS,TENSORS trace_rate=1" REST);
    expect_grpc(&f, NULL, NULL, NULL, "0 trace_level=TIMESTAMPS,TENSORS trace_rate=1" REST);
    expect_grpc(&f, "nope", NULL, NULL, "3 Request for unknown model : nope");
    expect_grpc(&f, "", "trace_rate", "7", "0 trace_level=TIMESTAMPS,TENSORS trace_rate=7" REST);
    expect_grpc(&f, "m", "trace_rate", "3", "0 trace_level=TIMESTAMPS,TENSORS trace_rate=3" REST);
    expect_grpc(&f, "", "trace_rate", NULL, "0 trace_level=TIMESTAMPS,TENSORS trace_rate=1" REST);
    expect_grpc(&f, "m", NULL, NULL, "0 trace_level=TIMESTAMPS,TENSORS trace_rate=3" REST);
    expect_grpc(&f, "m", "trace_rate", NULL, "0 trace_level=TIMESTAMPS,TENSORS trace_rate=1" REST);
    expect_grpc(&f, "", "trace_rate", "1|2", "3 expect only 1 value for 'trace_rate'");
    expect_grpc(&f, "", "log_frequency", "1|2", "3 expect only 1 value for 'log_frequency'");
    expect_grpc(&f, "", "trace_rate", "x", "3 Unable to parse 'trace_rate', got: x");
    expect_grpc(&f, "", "trace_rate", "", "3 Unable to parse 'trace_rate', got: ");
    expect_grpc(&f, "", "trace_rate", "99999999999",
                "3 Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: 99999999999");
    expect_grpc(&f, "", "trace_rate", "-1",
                "3 Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: -1");
    expect_grpc(&f, "", "trace_count", "-2", "3 Unable to parse 'trace_count'. Expecting value >= -1, got: -2");
    expect_grpc(&f, "", "trace_level", "TIMESTAMPS|OFF", "3 Expect only one trace level 'OFF' is specified");
    expect_grpc(&f, "", "trace_level", "TENSORS", "0 trace_level=TENSORS trace_rate=1" REST);
    expect_grpc(&f, "", "trace_level", "OFF", "0 trace_level=OFF trace_rate=1" REST);
    expect_grpc(&f, "", "trace_level", NULL, "0 trace_level=TIMESTAMPS,TENSORS trace_rate=1" REST);
    expect_grpc(&f, "", "trace_level", "nope", "3 Unknown trace level 'nope'. Expect 'OFF', 'TIMESTAMPS' or 'TENSORS'");
    expect_grpc(&f, "", "trace_file", "a", "12 trace file location can not be updated through network protocol");
    expect_grpc(&f, "", "trace_file", NULL, "12 trace file location can not be updated through network protocol");
    expect_grpc(&f, "", "unknown", "1",
                "3 Unknown trace setting 'unknown'. Expect trace_level, trace_rate, trace_count or log_frequency");
    fixture_close(&f);
}

static void test_models_are_added_and_removed(void **state)
{
    (void)state;
    struct fixture f;
    struct sonde_trace_model *a, *b;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    assert_int_equal(sonde_trace_model_new(f.manager, "", 1, &a), -EINVAL);
    assert_int_equal(sonde_trace_model_new(f.manager, "x", 1, &a), 0);
    assert_int_equal(sonde_trace_model_new(f.manager, "x", 2, &b), 0);
    expect_http(f.manager, "POST", "/v2/models/x/trace/setting", "{\"trace_rate\":\"4\"}", 200, "\"trace_rate\":\"4\"");
    sonde_trace_model_free(a);
    expect_http(f.manager, "GET", "/v2/models/x/trace/setting", NULL, 200, "\"trace_rate\":\"4\"");
    sonde_trace_model_free(b);
    expect_http(f.manager, "GET", "/v2/models/x/trace/setting", NULL, 400, "Request for unknown model : x");
    assert_int_equal(sonde_trace_model_new(f.manager, "x", 3, &a), 0);
    expect_http(f.manager, "GET", "/v2/models/x/trace/setting", NULL, 200, "\"trace_rate\":\"4\"");
    sonde_trace_model_free(a);
    sonde_trace_model_free(NULL);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_match_a_recorded_triton),
        cmocka_unit_test(test_sampling_matches_a_recorded_triton),
        cmocka_unit_test(test_layers_field_by_field),
        cmocka_unit_test(test_unusable_settings_are_refused),
        cmocka_unit_test(test_other_paths_are_not_handled),
        cmocka_unit_test(test_hostile_bodies_are_refused),
        cmocka_unit_test(test_opentelemetry_mode),
        cmocka_unit_test(test_grpc_settings_map),
        cmocka_unit_test(test_models_are_added_and_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
