/* The meaning of an event name, and invalid names. */
#include "sources/attach/sample_event.h"

#include "base/cleanup.h"
#include "signals/signals.h"

#include "probes/event.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

static struct sample_event parse(const char *name)
{
    struct sample_event e;

    assert_int_equal(sample_event_parse(name, &e), 0);
    return e;
}

static void test_counted_events(void **state)
{
    struct sample_event e = parse("minor-faults");
    struct perf_event_attr attr;

    (void)state;
    assert_int_equal(e.kind, SAMPLE_EVENT_SOFTWARE);
    assert_int_equal(e.period, 1);
    assert_string_equal(e.name, "minor-faults");
    assert_string_equal(e.unit, "count");
    sample_event_attr(&e, &attr);
    assert_int_equal(attr.type, PERF_TYPE_SOFTWARE);
    assert_int_equal(attr.config, PERF_COUNT_SW_PAGE_FAULTS_MIN);
    assert_int_equal(attr.sample_period, 1);
    assert_int_equal(attr.freq, 0); /* with a variable period the weight is unknown */
    e = parse("branch-misses");
    assert_int_equal(e.kind, SAMPLE_EVENT_HARDWARE);
    assert_int_equal(e.perf_type, PERF_TYPE_HARDWARE);
    assert_int_equal(e.perf_config, PERF_COUNT_HW_BRANCH_MISSES);
    assert_in_range(e.period, 1000, 100000000);
}

static void test_byte_events(void **state)
{
    struct sample_event e = parse("mmap");

    (void)state;
    assert_int_equal(e.kind, SAMPLE_EVENT_MMAP);
    assert_int_equal(e.period, 0);
    assert_string_equal(e.unit, "bytes");
    assert_int_equal(parse("brk").kind, SAMPLE_EVENT_BRK);
}

static void test_tracepoint_events(void **state)
{
    struct sample_event e = parse("tracepoint:sched:sched_switch");

    (void)state;
    assert_int_equal(e.kind, SAMPLE_EVENT_TRACEPOINT);
    assert_string_equal(e.group, "sched");
    assert_string_equal(e.member, "sched_switch");
    assert_string_equal(e.name, "sched:sched_switch");
    assert_string_equal(e.path, "");
}

static void test_usdt_and_uprobe_events(void **state)
{
    struct sample_event e = parse("usdt:python:gc__start");

    (void)state;
    assert_int_equal(e.kind, SAMPLE_EVENT_USER_PROBE);
    assert_string_equal(e.name, "python:gc__start");
    assert_string_equal(e.path, "");
    e = parse("usdt:/usr/lib/a:b:c.so:libc:setjmp");
    assert_string_equal(e.path, "/usr/lib/a:b:c.so");
    assert_string_equal(e.group, "libc");
    assert_string_equal(e.member, "setjmp");
    assert_string_equal(e.name, "libc:setjmp");
}

static void test_invalid_event_names(void **state)
{
    static const char *const wrong[] = {
        "",
        "cpu",
        "page-fault",
        "Page-Faults",
        "page-faults ",
        "tracepoint",
        "tracepoint:",
        "tracepoint:sched",
        "tracepoint:sched:",
        "tracepoint::x",
        "tracepoint:../sched:x",
        "tracepoint:sched:../../x",
        "tracepoint:a/b:x",
        "tracepoint:a:b:c",
        "tracepoint:.:x",
        "usdt:",
        "usdt:a",
        "usdt:a:",
        "usdt::b",
        "usdt:a:b:c",
        "usdt:/lib/x",
        "usdt:/lib/x:a",
        "usdt:/lib/x:a:",
        "usdt:lib/x:a:b",
        "usdt:/:",
        "usdt:/::",
        "mmap:1",
        "usdt:a:b c",
        "usdt:a:b\n",
    };
    struct sample_event e, untouched;
    char path[PATH_MAX + 64], part[SAMPLE_EVENT_NAME_MAX + 32];

    (void)state;
    memset(&e, 0x5A, sizeof(e));
    untouched = e;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (sample_event_parse(wrong[i], &e) != -EINVAL)
            fail_msg("'%s' is accepted", wrong[i]);
    snprintf(part, sizeof(part), "usdt:a:%0*d", SAMPLE_EVENT_NAME_MAX, 0);
    assert_int_equal(sample_event_parse(part, &e), -ENAMETOOLONG);
    snprintf(path, sizeof(path), "usdt:/%0*d:a:b", PATH_MAX, 0);
    assert_int_equal(sample_event_parse(path, &e), -ENAMETOOLONG);
    assert_memory_equal(&e, &untouched, sizeof(e));
}

/* The forms listed in the error are valid: lower-case forms are names, the others are patterns. */
static void test_listed_forms_are_valid(void **state)
{
    const char *form;
    size_t names = 0;

    (void)state;
    for (size_t i = 0; (form = sample_event_form(i)); i++) {
        const bool is_name = !strchr(form, ':');

        if (is_name)
            assert_string_equal(parse(form).name, form);
        names += is_name;
    }
    assert_int_equal(names, 13);
}

/* The event record in a recording, and invalid ones. */
static void test_recorded_events(void **state)
{
    static const char *const names[] = {"page-faults", "mmap", "tracepoint:sched:sched_switch",
                                        "usdt:/usr/bin/x:python:gc__start"};
    struct event_record record;
    struct sample_event again;

    (void)state;
    for (size_t i = 0; i < array_size(names); i++) {
        const struct sample_event e = parse(names[i]);

        sample_event_to_record(&e, &record);
        assert_true(signals_check_record(&record.h));
        sample_event_from_record(&record, &again);
        assert_string_equal(again.name, e.name);
        assert_string_equal(again.unit, e.unit);
        assert_int_equal(again.period, e.period);
    }
    record.h.size_bytes -= 8;
    assert_false(signals_check_record(&record.h));
    record.h.size_bytes += 8;
    record.unit = 3;
    assert_false(signals_check_record(&record.h));
    record.unit = 0;
    memset(record.name, 'n', sizeof(record.name)); /* not terminated */
    assert_false(signals_check_record(&record.h));
    record.name[sizeof(record.name) - 1] = '\0';
    assert_true(signals_check_record(&record.h));
    record.name[3] = '\033';
    assert_false(signals_check_record(&record.h));
    record.name[0] = '\0';
    assert_false(signals_check_record(&record.h));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counted_events),      cmocka_unit_test(test_byte_events),
        cmocka_unit_test(test_tracepoint_events),   cmocka_unit_test(test_usdt_and_uprobe_events),
        cmocka_unit_test(test_invalid_event_names), cmocka_unit_test(test_listed_forms_are_valid),
        cmocka_unit_test(test_recorded_events),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
