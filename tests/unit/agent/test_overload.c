/* The sentence about a node whose CPUs are all used, and the cases without a sentence. */
#include "agent/overload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SECOND 1000000000ull
#define MS     1e6

static const struct cpu_use busy = {.cpus = 2,
                                    .span_ns = 60 * SECOND,
                                    .all_ns = 117 * SECOND,
                                    .users = {{"rustc", 60 * SECOND}, {"cc1", 30 * SECOND}, {"sshd", SECOND}},
                                    .user_count = 3};

static void expect(const struct request_totals *totals, const struct cpu_use *use, const char *expected)
{
    char text[384];
    assert_int_equal(overload_describe(totals, use, text, sizeof(text)), expected[0] != '\0');
    assert_string_equal(text, expected);
}

static void test_requests_wait_for_busy_cpus(void **state)
{
    (void)state;
    const struct request_totals totals = {.explained = 100, .time_ns = 10000 * MS, .run_queue_ns = 6200 * MS};
    expect(
        &totals, &busy,
        "Requests spent 62 % of their explained time waiting for a CPU, because programs used 98 % of the node's CPU time: rustc 50 %, cc1 "
        "25 %.");
    struct cpu_use other = busy;
    other.all_ns = 48 * SECOND; /* a quota, or a hypervisor that took the CPUs */
    other.user_count = 0;
    expect(
        &totals, &other,
        "Requests spent 62 % of their explained time waiting for a CPU, although programs used 40 % of the node's CPU time.");
    other = (struct cpu_use){.cpus = 2}; /* CPUs are not sampled */
    expect(
        &totals, &other,
        "Requests spent 62 % of their explained time waiting for a CPU, and no CPU samples show what used the CPUs.");
    other = busy;
    other.cpus = 1;
    other.span_ns = 120 * SECOND;
    other.all_ns = 121 * SECOND; /* samples are random */
    expect(
        &totals, &other,
        "Requests spent 62 % of their explained time waiting for a CPU, because programs used 100 % of the node's CPU time: rustc 50 %, cc1 "
        "25 %.");
}

static void test_short_or_rare_waits_are_no_overload(void **state)
{
    (void)state;
    expect(&(struct request_totals){.explained = 100, .time_ns = 10000 * MS, .run_queue_ns = 1999 * MS}, &busy, "");
    expect(&(struct request_totals){.explained = 100, .time_ns = 100 * MS, .run_queue_ns = 50 * MS}, &busy, "");
    expect(&(struct request_totals){0}, &busy, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_wait_for_busy_cpus),
        cmocka_unit_test(test_short_or_rare_waits_are_no_overload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
