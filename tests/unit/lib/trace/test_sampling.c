/* Which requests are traced: rate, count, levels by model, the caller's context; an update starts a new count. */
#include "fixture.h"
#include "trace/context.h"
#include "transport.h"

#include <errno.h>

/* Starts `n` requests; '1' for each that is traced. */
static const char *pattern(struct sonde_trace_model *model, int n, const char *traceparent)
{
    static char text[256];
    struct sonde_trace_request request = {sizeof(request), .traceparent = traceparent};
    for (int i = 0; i < n; i++) {
        struct sonde_trace *t = sonde_trace_start(model, &request);
        text[i] = t ? '1' : '0';
        sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    }
    text[n] = '\0';
    return text;
}

static void post(struct sonde_trace_manager *m, const char *model, const char *body)
{
    char path[64] = "/v2/trace/setting", *answer;
    unsigned status;
    if (model)
        snprintf(path, sizeof(path), "/v2/models/%s/trace/setting", model);
    assert_int_equal(sonde_trace_http(m, "POST", path, body, strlen(body), &status, &answer), 0);
    if (status != 200)
        fail_msg("%s", answer);
    sonde_trace_free(answer);
}

static bool settings_contain(struct sonde_trace_manager *m, const char *what)
{
    char *answer;
    unsigned status;
    assert_int_equal(sonde_trace_http(m, "GET", "/v2/trace/setting", NULL, 0, &status, &answer), 0);
    bool found = strstr(answer, what) != NULL;
    sonde_trace_free(answer);
    return found;
}

static void test_every_nth_request_is_traced(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=3", "level=TIMESTAMPS");
    assert_string_equal(pattern(f.model, 10, NULL), "0010010010");
    /* An update starts a new count, even with the same value. */
    post(f.manager, NULL, "{\"trace_rate\":\"3\"}");
    assert_string_equal(pattern(f.model, 4, NULL), "0010");
    /* So does an update of nothing; an empty body is not an update. */
    post(f.manager, NULL, "{}");
    assert_string_equal(pattern(f.model, 4, NULL), "0010");
    post(f.manager, NULL, "");
    assert_string_equal(pattern(f.model, 4, NULL), "0100");
    post(f.manager, NULL, "{\"trace_rate\":\"1\"}");
    assert_string_equal(pattern(f.model, 3, NULL), "111");
    post(f.manager, NULL, "{\"trace_level\":[\"OFF\"]}");
    assert_string_equal(pattern(f.model, 3, NULL), "000");
    assert_int_equal(fixture_stats(&f).sampled, 3 + 1 + 1 + 1 + 3);
    fixture_close(&f);
}

static void test_count_is_the_remainder(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=2", "level=TIMESTAMPS", "count=3");
    assert_string_equal(pattern(f.model, 5, NULL), "01010");
    assert_true(settings_contain(f.manager, "\"trace_count\":\"1\""));
    assert_string_equal(pattern(f.model, 6, NULL), "100000");
    assert_true(settings_contain(f.manager, "\"trace_count\":\"0\""));
    /* The inherited count is restored by any update; a model's own count is the remaining one. */
    post(f.manager, NULL, "{\"trace_rate\":\"1\"}");
    assert_true(settings_contain(f.manager, "\"trace_count\":\"3\""));
    post(f.manager, NULL, "{\"trace_rate\":\"2\"}");
    post(f.manager, NULL, "{\"trace_count\":\"2\"}");
    assert_string_equal(pattern(f.model, 2, NULL), "01");
    post(f.manager, NULL, "{\"trace_rate\":\"1\"}");
    assert_string_equal(pattern(f.model, 3, NULL), "100");
    post(f.manager, NULL, "{\"trace_count\":\"-1\"}");
    assert_string_equal(pattern(f.model, 3, NULL), "111");
    post(f.manager, NULL, "{\"trace_count\":\"0\"}");
    assert_string_equal(pattern(f.model, 3, NULL), "000");
    fixture_close(&f);
}

static void test_models_share_the_global_counter_until_they_have_their_own(void **state)
{
    (void)state;
    struct fixture f;
    struct sonde_trace_model *other;
    fixture_open(&f, "rate=2", "level=TIMESTAMPS");
    assert_int_equal(sonde_trace_model_new(f.manager, "other", 1, &other), 0);
    assert_string_equal(pattern(f.model, 1, NULL), "0");
    assert_string_equal(pattern(other, 1, NULL), "1");
    post(f.manager, "other", "{\"trace_rate\":\"3\"}");
    assert_string_equal(pattern(other, 4, NULL), "0010");
    assert_string_equal(pattern(f.model, 3, NULL), "010");
    post(f.manager, "other", "{\"trace_level\":[\"OFF\"]}");
    assert_string_equal(pattern(other, 4, NULL), "0000");
    /* Off for all, on for one. */
    post(f.manager, "other", "{\"trace_level\":[\"TENSORS\"],\"trace_rate\":\"1\"}");
    post(f.manager, NULL, "{\"trace_level\":[\"OFF\"]}");
    assert_string_equal(pattern(f.model, 3, NULL), "000");
    assert_string_equal(pattern(other, 3, NULL), "111");
    /* Clearing its last field removes the entry, and the model inherits again. */
    post(f.manager, "other", "{\"trace_level\":null,\"trace_rate\":null}");
    assert_string_equal(pattern(other, 3, NULL), "000");
    post(f.manager, NULL, "{\"trace_level\":null}");
    assert_string_equal(pattern(other, 3, NULL), "010");
    sonde_trace_model_free(other);
    fixture_close(&f);
}

/* Traces in flight keep the settings they started with. */
static void test_change_does_not_affect_requests_in_flight(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=1", "level=TENSORS", "triton,log-frequency=1");
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    post(f.manager, NULL, "{\"trace_level\":[\"OFF\"],\"log_frequency\":\"0\"}");
    post(f.manager, NULL, "{\"trace_level\":[\"TIMESTAMPS\"]}");
    assert_int_equal(sonde_trace_level(t), SONDE_TRACE_TENSORS);
    struct sonde_trace *child = sonde_trace_child(t, f.model);
    assert_int_equal(sonde_trace_level(child), SONDE_TRACE_TENSORS);
    sonde_trace_end(child, SONDE_TRACE_OK, NULL);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    assert_int_equal(sonde_trace_manager_flush(f.manager, 10000), 0);
    char *text = fixture_read(&f, ".0");
    assert_non_null(text);
    free(text);
    assert_null(fixture_read(&f, ""));
    fixture_close(&f);
}

#define SAMPLED   "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
#define UNSAMPLED "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"

static void test_callers_context_decides_in_opentelemetry_mode(void **state)
{
    (void)state;
    struct sonde_trace_config *config;
    struct sonde_trace_manager *m;
    struct sonde_trace_model *model;
    assert_int_equal(sonde_trace_config_new(&config), 0);
    assert_int_equal(sonde_trace_config_set(config, "--trace-config", "mode=opentelemetry", NULL, 0), 0);
    assert_int_equal(sonde_trace_config_set(config, "--trace-config", "level=TIMESTAMPS", NULL, 0), 0);
    assert_int_equal(sonde_trace_config_set(config, "--trace-config", "rate=2", NULL, 0), 0);
    assert_int_equal(trace_manager_new(config, NULL, &transport_to_nowhere, &m, NULL, 0), 0);
    assert_int_equal(sonde_trace_model_new(m, "m", 1, &model), 0);
    assert_string_equal(pattern(model, 3, SAMPLED), "111");   /* independent of rate ... */
    assert_string_equal(pattern(model, 3, UNSAMPLED), "000"); /* the flag is honoured */
    assert_string_equal(pattern(model, 2, "00-junk"), "01");  /* as if there were none */
    post(m, NULL, "{\"trace_rate\":\"0\"}");
    assert_string_equal(pattern(model, 3, NULL), "000");
    assert_string_equal(pattern(model, 3, SAMPLED), "111");
    post(m, NULL, "{\"trace_rate\":\"1\",\"trace_count\":\"1\"}");
    assert_string_equal(pattern(model, 3, SAMPLED), "111"); /* ... and count, which it does not consume */
    assert_string_equal(pattern(model, 3, NULL), "100");
    assert_string_equal(pattern(model, 3, SAMPLED), "111");
    post(m, NULL, "{\"trace_level\":[\"OFF\"]}");
    assert_string_equal(pattern(model, 3, SAMPLED), "000");
    sonde_trace_model_free(model);
    sonde_trace_manager_free(m);
    sonde_trace_config_free(config);

    struct fixture f; /* and not in triton mode */
    fixture_open(&f, "rate=2", "level=TIMESTAMPS");
    assert_string_equal(pattern(f.model, 4, SAMPLED), "0101");
    assert_string_equal(pattern(f.model, 4, UNSAMPLED), "0101");
    fixture_close(&f);
}

/* Vectors of the W3C's test suite (trace-context/test/test.py): headers that a receiver must accept or refuse. */
static void test_w3c_vectors(void **state)
{
    (void)state;
    static const char *const good[] = {
        SAMPLED,
        UNSAMPLED,
        "00-12345678901234567890123456789012-1234567890123456-ff",
        "cc-12345678901234567890123456789012-1234567890123456-01",
        "cc-12345678901234567890123456789012-1234567890123456-01-what-the-future-will-be-like",
    };
    static const char *const bad[] = {
        "",
        "00-12345678901234567890123456789012-1234567890123456-01-what-the-future-will-not-be-like",
        "00-12345678901234567890123456789012-1234567890123456-01.what-the-future-will-not-be-like",
        "cc-12345678901234567890123456789012-1234567890123456-01.what-the-future-will-not-be-like",
        "ff-12345678901234567890123456789012-1234567890123456-01",
        ".0-12345678901234567890123456789012-1234567890123456-01",
        "0.-12345678901234567890123456789012-1234567890123456-01",
        "000-12345678901234567890123456789012-1234567890123456-01",
        "0-12345678901234567890123456789012-1234567890123456-01",
        "00-00000000000000000000000000000000-1234567890123456-01",
        "00-.2345678901234567890123456789012-1234567890123456-01",
        "00-1234567890123456789012345678901.-1234567890123456-01",
        "00-123456789012345678901234567890123-1234567890123456-01",
        "00-1234567890123456789012345678901-1234567890123456-01",
        "00-12345678901234567890123456789012-0000000000000000-01",
        "00-12345678901234567890123456789012-.234567890123456-01",
        "00-12345678901234567890123456789012-123456789012345.-01",
        "00-12345678901234567890123456789012-12345678901234567-01",
        "00-12345678901234567890123456789012-123456789012345-01",
        "00-12345678901234567890123456789012-1234567890123456-.0",
        "00-12345678901234567890123456789012-1234567890123456-0.",
        "00-12345678901234567890123456789012-1234567890123456-001",
        "00-12345678901234567890123456789012-1234567890123456-1",
        "00-ABCDEFABCDEFABCDEFABCDEFABCDEFAB-1234567890123456-01",
        "00_12345678901234567890123456789012_1234567890123456_01",
    };
    struct trace_context c;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (trace_context_parse(good[i], &c) != 0 || !sonde_trace_parent_is_valid(good[i]))
            fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (trace_context_parse(bad[i], &c) != -EINVAL || sonde_trace_parent_is_valid(bad[i]))
            fail_msg("accepted: %s", bad[i]);
    assert_false(sonde_trace_parent_is_valid(NULL));
    assert_int_equal(trace_context_parse(SAMPLED, &c), 0);
    assert_int_equal(c.flags, 1);
    assert_int_equal(c.trace_id[0], 0x0a);
    assert_int_equal(c.trace_id[15], 0x9c);
    assert_int_equal(c.parent_id[7], 0x31);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_nth_request_is_traced),
        cmocka_unit_test(test_count_is_the_remainder),
        cmocka_unit_test(test_models_share_the_global_counter_until_they_have_their_own),
        cmocka_unit_test(test_change_does_not_affect_requests_in_flight),
        cmocka_unit_test(test_callers_context_decides_in_opentelemetry_mode),
        cmocka_unit_test(test_w3c_vectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
