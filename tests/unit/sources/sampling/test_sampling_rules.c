/* Sampling rules as users write them, and the resulting rates. */
#include "sources/sampling/sampling_rules.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct sampling_rules parse(const char *text)
{
    struct sampling_rules rules;
    const char *bad;
    size_t bytes;
    assert_int_equal(sampling_rules_parse(text, &rules, &bad, &bytes), 0);
    return rules;
}

static void expect(const struct sampling_rule *t, enum sampling_rule_selector selector, const char *value, uint32_t hz)
{
    assert_int_equal(t->selector, selector);
    assert_string_equal(t->value, value);
    assert_int_equal(t->hz, hz);
}

static void test_valid_rules(void **state)
{
    (void)state;
    const struct sampling_rules t = parse(
        " pid=4711:99,user=backup:0 ,\tcommand=a:b=c d:1000, cgroup=/:1, container=0123abcd:7,pod=0b1d3c5e-1111-2222-3333-444444444444:49,"
        "pod=shop/web-1:2, pod-label=app.kubernetes.io/name=a_b:3");
    char name[SAMPLING_RULE_NAME_BYTES];
    assert_int_equal(t.count, 8);
    expect(&t.list[0], SAMPLING_RULE_PID, "4711", 99);
    expect(&t.list[1], SAMPLING_RULE_USER, "backup", 0);
    expect(&t.list[2], SAMPLING_RULE_COMMAND, "a:b=c d", 1000);
    expect(&t.list[3], SAMPLING_RULE_CGROUP, "/", 1);
    expect(&t.list[4], SAMPLING_RULE_CONTAINER, "0123abcd", 7);
    expect(&t.list[5], SAMPLING_RULE_POD, "0b1d3c5e-1111-2222-3333-444444444444", 49);
    expect(&t.list[6], SAMPLING_RULE_POD_NAME, "shop/web-1", 2);
    expect(&t.list[7], SAMPLING_RULE_POD_LABEL, "app.kubernetes.io/name=a_b", 3);
    assert_string_equal(sampling_rule_name(&t.list[2], name), "command=a:b=c d");
    assert_string_equal(sampling_rule_name(&t.list[6], name), "pod=shop/web-1");
    assert_string_equal(sampling_rule_name(&t.list[7], name), "pod-label=app.kubernetes.io/name=a_b");
    assert_int_equal(parse("").count, 0);
    assert_int_equal(parse("  ").count, 0);
}

static void expect_bad(const char *text, const char *expected)
{
    struct sampling_rules rules;
    const char *bad = NULL;
    size_t bytes = 0;
    if (sampling_rules_parse(text, &rules, &bad, &bytes) != -EINVAL)
        fail_msg("'%s' was accepted", text);
    if (bytes != strlen(expected) || strncmp(bad, expected, bytes) != 0)
        fail_msg("in '%s' the error is at '%.*s'", text, (int)bytes, bad);
}

static void test_invalid_rules_are_refused(void **state)
{
    (void)state;
    static const char *const entries[] = {
        "command",   "command=a",  "command=:9",   "=a:9",           "command:9",     "9",
        "a:9=b",     "command=a:", "command=a:-1", "command=a:1001", "command=a:9Hz", "Command=a:9",
        "label=a:9", "pid=0:9",    "pid=x:9",      "pid=99999999:9", "user=first:2",
    };
    char text[SAMPLING_RULE_VALUE_BYTES + 64], entry[SAMPLING_RULE_VALUE_BYTES + 32];
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        snprintf(text, sizeof(text), "user=first:1,  %s , user=last:1", entries[i]);
        expect_bad(text, entries[i]);
    }
    expect_bad("user=a:1,", "");
    expect_bad(",user=a:1", "");
    snprintf(entry, sizeof(entry), "cgroup=%0*d:9", SAMPLING_RULE_VALUE_BYTES, 0); /* one too long */
    expect_bad(entry, entry);
    snprintf(entry, sizeof(entry), "cgroup=%0*d:9", SAMPLING_RULE_VALUE_BYTES - 1, 0);
    assert_int_equal(parse(entry).count, 1);
}

static void test_number_of_rules_is_bounded(void **state)
{
    (void)state;
    char text[1024] = "";
    size_t used = 0;
    for (int i = 0; i < SAMPLING_RULES_MAX; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%suser=u%d:1", i ? "," : "", i);
    assert_int_equal(parse(text).count, SAMPLING_RULES_MAX);
    snprintf(text + used, sizeof(text) - used, ",user=one:1");
    expect_bad(text, "user=one:1");
}

static void test_rule_rates(void **state)
{
    (void)state;
    struct sampling_rules t = parse("command=a:99, command=b:0, command=c:33");
    uint64_t shares[SAMPLING_RULES_MAX + 1];
    assert_int_equal(sampling_rules_clock_hz(NULL, 19), 19);
    assert_int_equal(sampling_rules_clock_hz(&t, 19), 99);
    assert_int_equal(sampling_rules_clock_hz(&t, 200), 200);
    sampling_rules_shares(&t, 19, 99, shares);
    assert_int_equal(shares[0], SAMPLING_RULE_ALWAYS);
    assert_int_equal(shares[1], 0);
    assert_int_equal(shares[2], SAMPLING_RULE_ALWAYS / 3);
    assert_int_equal(shares[SAMPLING_RULES_MAX], 19 * SAMPLING_RULE_ALWAYS / 99);
    /* A sample's weight follows from its rate, to within a nanosecond. */
    const uint64_t tick_ns = 1000000000 / 99;
    assert_in_range(tick_ns * SAMPLING_RULE_ALWAYS / shares[2], 1000000000 / 33 - 3, 1000000000 / 33);
    assert_in_range(tick_ns * SAMPLING_RULE_ALWAYS / shares[SAMPLING_RULES_MAX], 1000000000 / 19 - 6, 1000000000 / 19);
}

static void test_rates_of_a_faster_clock(void **state)
{
    (void)state;
    const struct sampling_rules t = parse("command=a:50, command=b:0");
    uint64_t shares[SAMPLING_RULES_MAX + 1];
    sampling_rules_shares(&t, 20, 200, shares);
    assert_int_equal(shares[0], SAMPLING_RULE_ALWAYS / 4);
    assert_int_equal(shares[1], 0);
    assert_int_equal(shares[SAMPLING_RULES_MAX], 20 * SAMPLING_RULE_ALWAYS / 200);
    const struct sampling_rules none = parse("command=a:0");
    sampling_rules_shares(&none, 0, 0, shares); /* no clock, no rates */
    assert_int_equal(shares[0] | shares[SAMPLING_RULES_MAX], 0);
}

static bool can_replace(const char *loaded, const char *next, uint32_t others_hz)
{
    const struct sampling_rules from = parse(loaded), to = parse(next);
    return sampling_rules_can_replace(&from, &to, others_hz);
}

static void test_loaded_programs_apply_rules_that_need_no_more(void **state)
{
    (void)state;
    assert_true(can_replace("command=a:99", "command=b:99", 19));
    assert_true(can_replace("command=a:99", "command=b:5, command=c:40", 19)); /* by a clock of 99 Hz */
    assert_true(can_replace("command=a:99, user=0:1", "user=1:20", 19));
    assert_true(can_replace("command=a:99", "", 19));
    assert_true(can_replace("cgroup=/a:99", "container=0123456789abcdef:9", 19)); /* both are looked up as cgroups */
    assert_false(can_replace("command=a:99", "user=0:9", 19));
    assert_false(can_replace("command=a:99", "command=a:100", 19));
    assert_false(can_replace("command=a:5", "command=a:20", 19));
    assert_true(can_replace("command=a:5", "command=a:19", 19)); /* the clock's is the rate of all others */
    assert_false(can_replace("command=a:99", "command=b:0", 19));
    assert_true(can_replace("command=a:0", "command=b:0", 19));
    assert_true(can_replace("command=a:99", "command=b:0", 0)); /* tasks without a rule were left out before */
}

static void test_wait_sampling_rates(void **state)
{
    (void)state;
    struct sampling_rules t = parse("command=a:190, command=b:0, command=c:2, command=d:1");
    uint64_t ns[SAMPLING_RULES_MAX + 1];
    sampling_rules_sample_ns(&t, 19, 1000000, 10000000, ns);
    assert_int_equal(ns[0], 100000); /* ten times as many records */
    assert_int_equal(ns[1], 0);
    assert_int_equal(ns[2], 9500000);
    assert_int_equal(ns[3], 10000000);
    assert_int_equal(ns[SAMPLING_RULES_MAX], 1000000);
    sampling_rules_sample_ns(&t, 19, 0, 10000000, ns); /* nothing is sampled at random */
    assert_int_equal(ns[0] | ns[2] | ns[SAMPLING_RULES_MAX], 0);
    sampling_rules_sample_ns(&t, 19, 3000, 2000, ns);
    assert_int_equal(ns[3], 3000);            /* a rule with a lower rate never records more than the default */
    t = parse("command=a:100, command=b:10"); /* and nothing of all others */
    sampling_rules_sample_ns(&t, 0, 1000000, 1000000000, ns);
    assert_int_equal(ns[0], 1000000);
    assert_int_equal(ns[1], 10000000);
    assert_true(sampling_rules_leave_out(&t, 0));
    assert_false(sampling_rules_leave_out(&t, 19));
    assert_false(sampling_rules_leave_out(NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid_rules),
        cmocka_unit_test(test_invalid_rules_are_refused),
        cmocka_unit_test(test_number_of_rules_is_bounded),
        cmocka_unit_test(test_rule_rates),
        cmocka_unit_test(test_rates_of_a_faster_clock),
        cmocka_unit_test(test_loaded_programs_apply_rules_that_need_no_more),
        cmocka_unit_test(test_wait_sampling_rates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
