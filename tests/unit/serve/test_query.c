/* The parameters of API calls: valid values, and the error texts of invalid ones. */
#include "serve/query.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ALL ((1U << QUERY_KEY_COUNT) - 1)

static int set(struct query *q, const char *key, const char *value, char why[256])
{
    return query_set(q, key, strlen(key), value, value ? strlen(value) : 0, why, 256);
}

static void expect_refused(const char *key, const char *value, const char *reason)
{
    struct query q;
    char why[256] = "";
    query_init(&q, ALL);
    if (set(&q, key, value, why) != -EINVAL)
        fail_msg("%s=%s was accepted", key, value ? value : "(none)");
    if (!strstr(why, reason))
        fail_msg("%s=%s: '%s' does not contain '%s'", key, value ? value : "(none)", why, reason);
}

static void test_defaults(void **state)
{
    struct query q;
    (void)state;
    query_init(&q, ALL);
    assert_int_equal(q.seconds, 60);
    assert_int_equal(q.max, 50);
    assert_int_equal(q.pid, 0);
    assert_string_equal(q.format, "json");
    assert_string_equal(q.container, "");
}

static void test_valid_parameters_are_parsed(void **state)
{
    struct query q;
    char why[256];
    (void)state;
    query_init(&q, ALL);
    assert_int_equal(set(&q, "seconds", "3600", why), 0);
    assert_int_equal(set(&q, "pid", "2147483647", why), 0);
    assert_int_equal(set(&q, "max", "1", why), 0);
    assert_int_equal(set(&q, "container", "0123456789ab", why), 0);
    assert_int_equal(set(&q, "service", "shop & cart \xc3\xa9", why), 0);
    assert_int_equal(set(&q, "format", "pprof", why), 0);
    assert_int_equal(set(&q, "which", "abnormal", why), 0);
    assert_int_equal(q.which, REQUEST_CHOICE_ABNORMAL);
    assert_int_equal(q.seconds, 3600);
    assert_int_equal(q.pid, INT32_MAX);
    assert_int_equal(q.max, 1);
    assert_string_equal(q.container, "0123456789ab");
    assert_string_equal(q.service, "shop & cart \xc3\xa9");
    assert_string_equal(q.format, "pprof");
}

static void test_invalid_values_are_refused(void **state)
{
    static const char *const numbers[] = {
        "", "0", "-1", "+1", " 1", "1 ", "1.5", "1e3", "0x10", "99999999999999999999", "x", "1s"};
    char longest[300];
    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        expect_refused("seconds", numbers[i], "seconds: a whole number from 1 to 3600");
        expect_refused("pid", numbers[i], "pid: a whole number");
        expect_refused("max", numbers[i], "max: a whole number from 1 to 1000");
    }
    expect_refused("seconds", "3601", "3600");
    expect_refused("pid", "2147483648", "2147483647");
    expect_refused("max", "1001", "1000");
    expect_refused("container", "0123456789a", "hexadecimal");
    expect_refused("container", "0123456789aB", "hexadecimal");
    expect_refused("container", "../../../etc/passwd", "hexadecimal");
    expect_refused("service", "", "service");
    expect_refused("service", "a\nb", "control");
    expect_refused("format", "", "format");
    expect_refused("format", "../x", "format");
    expect_refused("format", "abcdefghijklmnop", "format");
    expect_refused("pid", NULL, "a value");
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    expect_refused("service", longest, "at most 255");
    expect_refused("container", longest, "at most 255");
}

static void test_unknown_parameters_are_refused(void **state)
{
    struct query q;
    char why[256];
    (void)state;
    expect_refused(
        "Seconds", "1",
        "seconds, pid, container, service, format, max, from, to, baseline_from, baseline_to, time, by, order");
    expect_refused("by", "Total", "by: self or total is needed");
    expect_refused("order", "", "order: most or change is needed");
    expect_refused("which", "slow", "all, abnormal, groups or abnormal_groups");
    expect_refused("", "", "unknown parameter");
    query_init(&q, QUERY_BIT(QUERY_SECONDS) | QUERY_BIT(QUERY_MAX));
    assert_int_equal(set(&q, "pid", "1", why), -EINVAL);
    assert_string_equal(why, "unknown parameter; this address knows: seconds, max");
    query_init(&q, 0);
    assert_int_equal(set(&q, "seconds", "1", why), -EINVAL);
    assert_string_equal(why, "this address takes no parameters");
}

static void test_time_ranges(void **state)
{
    static const struct {
        const char *name;
        const struct sample_type *type;
    } times[] = {{"cpu", &sample_type_cpu}, {"off_cpu", &sample_type_off_cpu}, {"wall", &sample_type_wall}};
    char why[256];
    (void)state;
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        struct query q;
        query_init(&q, ALL);
        assert_ptr_equal(q.type, &sample_type_cpu);
        assert_int_equal(set(&q, "time", times[i].name, why), 0);
        assert_ptr_equal(q.type, times[i].type);
    }
    expect_refused("time", "", "off_cpu or wall");
    expect_refused("time", "waits", "off_cpu or wall");
}

static void test_repeated_parameter_is_refused(void **state)
{
    struct query q;
    char why[256];
    (void)state;
    query_init(&q, ALL);
    assert_int_equal(set(&q, "pid", "1", why), 0);
    assert_int_equal(set(&q, "pid", "1", why), -EINVAL);
    assert_string_equal(why, "pid: given twice");
}

/* The error for a list of parameters, "" if it is accepted. */
static const char *error_of(unsigned needed, const char *const pairs[][2], char why[256])
{
    struct query q;
    why[0] = '\0';
    query_init(&q, ALL);
    for (; pairs[0][0]; pairs++)
        if (set(&q, pairs[0][0], pairs[0][1], why) < 0)
            return why;
    const int r = query_check(&q, needed, why, 256);
    assert_int_equal(r, why[0] ? -EINVAL : 0);
    return why;
}

#define ERROR_OF(needed, ...) error_of(needed, (const char *const[][2]){__VA_ARGS__, {NULL, NULL}}, why)

static void test_region_parameters(void **state)
{
    char why[256];
    (void)state;
    assert_string_equal(ERROR_OF(0, {"pid", "1"}), "");
    assert_string_equal(ERROR_OF(0, {"from", "0"}, {"to", "1"}), "");
    assert_string_equal(ERROR_OF(0, {"to", "9000000000000"}, {"from", "8999999999999"}), "");
    assert_string_equal(ERROR_OF(0, {"from", "1"}), "from and to: one needs the other");
    assert_string_equal(ERROR_OF(0, {"baseline_to", "1"}), "baseline_from and baseline_to: one needs the other");
    assert_string_equal(ERROR_OF(0, {"from", "5"}, {"to", "5"}), "to: has to be later than from");
    assert_string_equal(ERROR_OF(0, {"baseline_from", "5"}, {"baseline_to", "4"}),
                        "baseline_to: has to be later than baseline_from");
    assert_string_equal(ERROR_OF(0, {"from", "0"}, {"to", "3600001"}), "to: at most 3600000 ms later than from");
    assert_string_equal(ERROR_OF(0, {"from", "1"}, {"to", "2"}, {"seconds", "60"}),
                        "seconds: not together with from and to");
    assert_string_equal(ERROR_OF(QUERY_BIT(QUERY_BASELINE_TO), {"from", "1"}, {"to", "2"}),
                        "baseline_to: is needed here");
    assert_string_equal(ERROR_OF(0, {"from", "9000000000001"}, {"to", "1"}),
                        "from: a whole number from 0 to 9000000000000 is needed");
    assert_string_equal(ERROR_OF(0, {"to", "-1"}), "to: a whole number from 0 to 9000000000000 is needed");
    assert_string_equal(ERROR_OF(0, {"to", "1.5"}), "to: a whole number from 0 to 9000000000000 is needed");
}

static void test_embedded_nul(void **state)
{
    struct query q;
    char why[256];
    (void)state;
    query_init(&q, ALL);
    assert_int_equal(query_set(&q, "pid", 3, "1\0002", 3, why, sizeof(why)), -EINVAL);
    assert_int_equal(query_set(&q, "pid\0x", 5, "1", 1, why, sizeof(why)), -EINVAL);
    assert_int_equal(q.pid, 0);
}

static void test_error_text_is_truncated(void **state)
{
    struct query q;
    char why[8] = "";
    (void)state;
    query_init(&q, ALL);
    assert_int_equal(query_set(&q, "x", 1, "1", 1, why, sizeof(why)), -EINVAL);
    assert_int_equal(strlen(why), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_valid_parameters_are_parsed),
        cmocka_unit_test(test_invalid_values_are_refused),
        cmocka_unit_test(test_unknown_parameters_are_refused),
        cmocka_unit_test(test_time_ranges),
        cmocka_unit_test(test_repeated_parameter_is_refused),
        cmocka_unit_test(test_embedded_nul),
        cmocka_unit_test(test_error_text_is_truncated),
        cmocka_unit_test(test_region_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
