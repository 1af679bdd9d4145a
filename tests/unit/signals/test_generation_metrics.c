/* Which requests are generations, their series and buckets, and the bounds of the table. */
#include "signals/request/generation_metrics.h"

#include <linux/types.h>

#include "probes/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS         1000000ull
#define CHAT       "POST /v1/chat/completions HTTP/1.1\r\n"
#define DURATION   "gen_ai_server_request_duration_seconds"
#define FIRST      "gen_ai_server_time_to_first_token_seconds"
#define PER_OUTPUT "gen_ai_server_time_per_output_token_seconds"

static struct request_stream_record make_record(const char *line, const char *model)
{
    struct request_stream_record r = {.flags = REQUEST_STREAM_ENDED | REQUEST_STREAM_EVENTS,
                                      .status = 200,
                                      .duration_ns = 1000 * MS,
                                      .first_ns = 50 * MS,
                                      .last_ns = 950 * MS,
                                      .chunks = 11,
                                      .tokens = 10,
                                      .comm = "python3"};
    r.h.size_bytes = sizeof(r);
    r.line_bytes = (uint8_t)snprintf(r.line, sizeof(r.line), "%s", line);
    r.model_bytes = (uint8_t)snprintf(r.model, sizeof(r.model), "%s", model);
    return r;
}

/* Returns the number of observations in all series with the label; `*ret_series`: how many series. */
static uint64_t count(const struct generation_metrics *m, const char *name, const char *label, const char *value,
                      size_t *ret_series)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    uint64_t sum = 0;
    *ret_series = 0;
    assert_int_equal(metric_set_new(&set), 0);
    generation_metrics_write(m, set);
    assert_int_equal(metric_set_error(set), 0);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family family = metric_set_family(set, i);
        for (size_t p = 0; strcmp(family.name, name) == 0 && p < family.point_count; p++) {
            const struct metric_point *point = &family.points[p];
            bool is_wanted = !label;
            for (size_t l = 0; label && l < point->label_count; l++)
                is_wanted |= strcmp(point->labels[l].name, label) == 0 && strcmp(point->labels[l].value, value) == 0;
            *ret_series += is_wanted;
            for (size_t b = 0; is_wanted && b <= point->bound_count; b++)
                sum += point->counts[b];
        }
    }
    return sum;
}

static void expect_count(const struct generation_metrics *m, const char *name, const char *label, const char *value,
                         uint64_t wanted)
{
    size_t series;
    const uint64_t found = count(m, name, label, value, &series);
    if (found != wanted)
        fail_msg("%s %s=%s: %llu", name, label, value, (unsigned long long)found);
}

static void record(struct generation_metrics *m, const struct request_stream_record *r)
{
    generation_metrics_record(m, "server", r);
}

static void test_which_requests_are_generations(void **state)
{
    (void)state;
    _cleanup_(generation_metrics_freep) struct generation_metrics *m = NULL;
    assert_int_equal(generation_metrics_new(&m), 0);
    struct request_stream_record r = make_record(CHAT, "m");
    record(m, &r);
    r.flags = REQUEST_STREAM_ENDED; /* not a stream */
    r.tokens = r.chunks = 0;
    record(m, &r);
    r.flags = 0; /* not ended */
    record(m, &r);
    r = make_record("POST /v1/models HTTP/1.1\r\n", "");
    r.tokens = 0;
    record(m, &r);
    r = make_record("GET /notes HTTP/1.1\r\n", "");
    r.tokens = 0; /* events of something else */
    record(m, &r);
    r = make_record("POST /generate_stream HTTP/1.1\r\n", "");
    record(m, &r);
    expect_count(m, DURATION, NULL, NULL, 3);
    expect_count(m, DURATION, "gen_ai_operation_name", "chat", 2);
    expect_count(m, DURATION, "gen_ai_operation_name", "text_completion", 1);
    expect_count(m, DURATION, "gen_ai_request_model", "m", 2);
    expect_count(m, FIRST, NULL, NULL, 2);
    expect_count(m, PER_OUTPUT, "service_name", "server", 2);
}

static void test_times_that_are_not_known_are_not_counted(void **state)
{
    (void)state;
    _cleanup_(generation_metrics_freep) struct generation_metrics *m = NULL;
    assert_int_equal(generation_metrics_new(&m), 0);
    struct request_stream_record r = make_record(CHAT, "m");
    r.flags |= REQUEST_STREAM_LATE;
    record(m, &r);
    expect_count(m, FIRST, NULL, NULL, 0);
    r = make_record(CHAT, "m");
    r.flags |= REQUEST_STREAM_UNREAD;
    record(m, &r);
    expect_count(m, FIRST, NULL, NULL, 1);
    expect_count(m, PER_OUTPUT, NULL, NULL, 0);
    r.usage = 100;
    record(m, &r);
    expect_count(m, PER_OUTPUT, NULL, NULL, 1);
    expect_count(m, DURATION, NULL, NULL, 3);
}

static void test_names_that_clients_invent_are_no_labels(void **state)
{
    (void)state;
    char name[32];
    size_t series;
    _cleanup_(generation_metrics_freep) struct generation_metrics *m = NULL;
    assert_int_equal(generation_metrics_new(&m), 0);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "no-%d", i);
        struct request_stream_record r = make_record(CHAT, name);
        r.status = 404;
        record(m, &r);
    }
    assert_int_equal(count(m, DURATION, "error_type", "404", &series), 1000);
    assert_int_equal(series, 1);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), i % 2 ? "a\n%d" : "m-%d", i);
        const struct request_stream_record r = make_record(CHAT, name);
        record(m, &r);
    }
    assert_int_equal(count(m, DURATION, NULL, NULL, &series), 2000);
    assert_true(series <= GENERATION_SERIES_MAX + 1);
    expect_count(m, DURATION, "gen_ai_request_model", "a", 500);
    assert_true(count(m, DURATION, "gen_ai_request_model", "other", &series) > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_which_requests_are_generations),
                                       cmocka_unit_test(test_times_that_are_not_known_are_not_counted),
                                       cmocka_unit_test(test_names_that_clients_invent_are_no_labels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
