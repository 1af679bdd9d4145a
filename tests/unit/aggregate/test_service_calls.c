/* Calls between services: kinds together, rates and percentiles over an interval, order, bounds, metrics. */
#include "aggregate/service_calls.h"
#include "export/openmetrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS    1000000ull
#define S     (1000 * MS)
#define START (1000 * S)

static struct service_calls *new_calls(void)
{
    struct service_calls *s;
    assert_int_equal(service_calls_new(&s), 0);
    return s;
}

/* `count` calls that took `ns` each. */
static void add_to(struct service_calls *s, uint64_t time_ns, const char *address, const char *kind, uint64_t count,
                   uint64_t ns)
{
    struct service_call_traffic t = {.time_ns = time_ns,
                                     .client = "shop :8000",
                                     .server = strcmp(address, "10.0.0.3:5432") == 0 ? "postgres :5432" : "",
                                     .address = address,
                                     .protocol = "PostgreSQL",
                                     .kind = kind,
                                     .sums = {.wait_ns = count * ns}};
    t.sums.durations[service_call_duration_bucket(ns)] = count;
    service_calls_add(s, &t);
}

static void add(struct service_calls *s, uint64_t time_ns, const char *kind, uint64_t count, uint64_t ns)
{
    add_to(s, time_ns, "10.0.0.3:5432", kind, count, ns);
}

static void test_durations_have_buckets(void **state)
{
    (void)state;
    assert_int_equal(service_call_duration_start(0), 0);
    assert_int_equal(service_call_duration_start(1), 1 << 16);
    assert_int_equal(service_call_duration_start(2), (1 << 16) + (1 << 14));
    assert_int_equal(service_call_duration_start(5), 1 << 17);
    for (uint32_t i = 0; i < SERVICE_CALL_DURATIONS; i++)
        assert_int_equal(service_call_duration_bucket(service_call_duration_start(i)), i);
    assert_int_equal(service_call_duration_bucket(UINT64_MAX), SERVICE_CALL_DURATIONS - 1);
    for (uint32_t i = 1; i < SERVICE_CALL_DURATIONS; i++)
        assert_true(service_call_duration_start(i + 1) * 4 <= service_call_duration_start(i) * 5);
}

static void test_kinds_of_a_service_are_one_row(void **state)
{
    (void)state;
    _cleanup_(service_calls_freep) struct service_calls *s = new_calls();
    _cleanup_free_ struct service_call *calls = NULL;
    size_t count;
    add(s, START, "BEGIN", 40, MS);
    add(s, START + 5 * S, "SELECT", 40, 100 * MS);
    add(s, START + 6 * S, "COMMIT", 10, 2 * MS);
    add(s, START + 7 * S, "UPDATE", 9, MS);
    add(s, START + 8 * S, "DELETE", 1, 150 * MS);
    assert_int_equal(service_calls_list(s, START, START + 10 * S, &calls, &count), 0);
    assert_int_equal(count, 1);
    assert_string_equal(calls[0].client, "shop :8000");
    assert_string_equal(calls[0].server, "postgres :5432");
    assert_string_equal(calls[0].address, "10.0.0.3:5432");
    assert_string_equal(calls[0].protocol, "PostgreSQL");
    assert_int_equal(calls[0].calls, 100);
    assert_true(calls[0].calls_per_second == 10);
    assert_int_equal(calls[0].wait_ns, (40 + 4000 + 20 + 9 + 150) * MS);
    assert_int_equal(calls[0].kind_count, 3); /* those waited for longest */
    assert_string_equal(calls[0].kinds[0].name, "SELECT");
    assert_string_equal(calls[0].kinds[1].name, "DELETE");
    assert_string_equal(calls[0].kinds[2].name, "BEGIN");
    assert_int_equal(calls[0].kinds[2].calls, 40);
    assert_int_equal(calls[0].kinds[2].wait_ns, 40 * MS);
    assert_in_range(calls[0].p50_ns, MS, 3 * MS);
    assert_in_range(calls[0].p99_ns, 90 * MS, 118 * MS);
}

static void test_longest_wait_comes_first(void **state)
{
    (void)state;
    _cleanup_(service_calls_freep) struct service_calls *s = new_calls();
    _cleanup_free_ struct service_call *calls = NULL;
    size_t count;
    add_to(s, START, "10.0.0.9:5432", "SELECT", 100, MS);
    add(s, START, "SELECT", 1, 200 * MS);
    assert_int_equal(service_calls_list(s, START, START + S, &calls, &count), 0);
    assert_int_equal(count, 2);
    assert_string_equal(calls[0].address, "10.0.0.3:5432");
    assert_string_equal(calls[1].address, "10.0.0.9:5432");
    assert_string_equal(calls[1].server, "");
}

static void add_by_name(struct service_calls *s, const char *server, const char *address, const char *kind)
{
    service_calls_add(s, &(struct service_call_traffic){.time_ns = START,
                                                        .client = "shop :8000",
                                                        .server = server,
                                                        .address = address,
                                                        .protocol = "Redis",
                                                        .kind = kind,
                                                        .sums = {.wait_ns = 1, .durations = {1}}});
}

/* Which service reads at an address may be known after the first calls. Unix sockets have no address. */
static void test_server_is_named_later(void **state)
{
    (void)state;
    _cleanup_(service_calls_freep) struct service_calls *s = new_calls();
    _cleanup_free_ struct service_call *calls = NULL;
    size_t count;
    add_by_name(s, "", "127.0.0.1:6379", "PING");
    add_by_name(s, "", "127.0.0.1:6379", "GET");
    add_by_name(s, "redis :6379", "127.0.0.1:6379", "GET");
    add_by_name(s, "redis", "", "GET");
    add_by_name(s, "valkey", "", "GET");
    assert_int_equal(service_calls_list(s, START, START + S, &calls, &count), 0);
    assert_int_equal(count, 3);
    assert_string_equal(calls[0].server, "redis :6379");
    assert_int_equal(calls[0].calls, 3);
}

static void test_only_the_interval_counts(void **state)
{
    (void)state;
    _cleanup_(service_calls_freep) struct service_calls *s = new_calls();
    struct service_call *calls;
    size_t count;
    add(s, START, "SELECT", 7, MS);
    add(s, START + 100 * S, "SELECT", 1, MS);
    assert_int_equal(service_calls_list(s, START + 90 * S, START + 110 * S, &calls, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(calls[0].calls, 1);
    free(calls);
    assert_int_equal(service_calls_list(s, START, START + 110 * S, &calls, &count), 0);
    assert_int_equal(calls[0].calls, 8);
    free(calls);
    assert_int_equal(service_calls_list(s, START, START + 1000 * S, &calls, &count), 0);
    assert_int_equal(count, 0);
    free(calls);
}

static void fill(struct service_calls *s, uint64_t time_ns, int count)
{
    char address[32];
    for (int i = 0; i < count; i++) {
        snprintf(address, sizeof(address), "10.0.1.%d:5432", i);
        add_to(s, time_ns, address, "SELECT", 2, MS);
    }
}

static void test_further_rows_are_one(void **state)
{
    (void)state;
    _cleanup_(service_calls_freep) struct service_calls *s = new_calls();
    _cleanup_free_ struct service_call *calls = NULL;
    size_t count;
    fill(s, START, SERVICE_CALLS_MAX + 5);
    assert_int_equal(service_calls_list(s, START, START + S, &calls, &count), 0);
    assert_int_equal(count, SERVICE_CALLS_MAX + 1);
    assert_string_equal(calls[0].client, "other");
    assert_int_equal(calls[0].calls, 10);
    assert_int_equal(calls[0].kind_count, 0);
}

static void assert_metric(struct service_calls *s, const char *line)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    _cleanup_buf_ struct buf text = {0};
    assert_int_equal(metric_set_new(&set), 0);
    service_calls_metrics(s, set);
    assert_int_equal(openmetrics_write(set, true, &text), 0);
    if (!strstr(text.data, line))
        fail_msg("no %s in\n%s", line, text.data);
}

/* The row of a kind that is not called any more gives up its place: the counter of its service does not decrease. */
static void test_idle_row_gives_up_its_place(void **state)
{
    static const char total[] = "sonde_calls_total{client=\"shop :8000\",server=\"postgres :5432\","
                                "address=\"10.0.0.3:5432\",protocol=\"PostgreSQL\"} 4\n";
    (void)state;
    _cleanup_(service_calls_freep) struct service_calls *s = new_calls();
    _cleanup_free_ struct service_call *calls = NULL;
    size_t count;
    add(s, START, "SELECT", 3, MS);
    fill(s, START + 400 * S, SERVICE_CALLS_MAX - 2);
    add(s, START + 400 * S, "INSERT", 1, MS);
    assert_metric(s, total);
    add_to(s, START + 401 * S, "10.0.0.9:5432", "SELECT", 1, MS);
    assert_int_equal(service_calls_list(s, START + 400 * S, START + 402 * S, &calls, &count), 0);
    for (size_t i = 0; i < count; i++)
        assert_string_not_equal(calls[i].client, "other");
    assert_metric(s, total);
    assert_metric(s, "sonde_calls_wait_seconds_total{client=\"shop :8000\",server=\"postgres :5432\","
                     "address=\"10.0.0.3:5432\",protocol=\"PostgreSQL\"} 0.004\n");
}

static void test_a_call_has_its_services_and_its_address(void **state)
{
    (void)state;
    const struct service_call call = {.client = "shop :8000", .server = "postgres :5432", .address = "10.0.0.3:5432"};
    assert_true(service_call_has(&call, "shop"));
    assert_true(service_call_has(&call, "shop :8000"));
    assert_true(service_call_has(&call, "postgres"));
    assert_true(service_call_has(&call, "10.0.0.3:5432"));
    assert_false(service_call_has(&call, "sho"));
    assert_false(service_call_has(&call, "10.0.0.3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations_have_buckets),
        cmocka_unit_test(test_kinds_of_a_service_are_one_row),
        cmocka_unit_test(test_longest_wait_comes_first),
        cmocka_unit_test(test_only_the_interval_counts),
        cmocka_unit_test(test_server_is_named_later),
        cmocka_unit_test(test_further_rows_are_one),
        cmocka_unit_test(test_idle_row_gives_up_its_place),
        cmocka_unit_test(test_a_call_has_its_services_and_its_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
