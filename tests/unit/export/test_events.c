/* Profiles of events: every format names the event and its unit, and prints weights. */
#include "export/export.h"

#include "../fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct profile *faults(void)
{
    const struct resource resource = fixture_resource(17, "server");
    const struct frame frames[] = {fixture_native("leaf"), fixture_native("main")};
    struct profile *p;

    assert_int_equal(profile_new(0, &p), 0);
    assert_int_equal(fixture_set_event(p, "page-faults", "count"), 0);
    p->period = 10;
    p->start_unix_ns = 1785585600000000000u;
    assert_int_equal(fixture_add(p, &resource, 17, "t", 10, frames, 2), 0);
    assert_int_equal(fixture_add(p, &resource, 17, "t", 10, frames, 2), 0);
    assert_int_equal(fixture_add(p, &resource, 17, "t", 10, frames + 1, 1), 0);
    return p;
}

static void assert_holds(const struct buf *text, const char *wanted)
{
    if (!memmem(text->data, text->size, wanted, strlen(wanted)))
        fail_msg("no %s in %.*s", wanted, (int)text->size, text->data);
}

static void test_folded_prints_event_weights(void **state)
{
    _cleanup_(profile_freep) struct profile *p = faults();
    _cleanup_buf_ struct buf out = {0};

    (void)state;
    assert_int_equal(exporter_folded.write(p, &out), 0);
    assert_string_equal(out.data, "server;main 10\nserver;main;leaf 20\n");
}

static void test_json_names_event_and_unit(void **state)
{
    _cleanup_(profile_freep) struct profile *p = faults();
    _cleanup_buf_ struct buf out = {0};

    (void)state;
    assert_int_equal(exporter_speedscope.write(p, &out), 0);
    assert_holds(&out, "\"type\":\"page-faults\",\"unit\":\"count\",");
    assert_holds(&out, "\"period\":10,\"samples\":3,\"weight\":30,");
    assert_holds(&out, "\"unit\":\"none\",\"startValue\":0,\"endValue\":30");
    assert_int_equal(fixture_set_event(p, "mmap", "bytes"), 0);
    out.size = 0;
    assert_int_equal(exporter_speedscope.write(p, &out), 0);
    assert_holds(&out, "\"unit\":\"bytes\",\"startValue\":0,\"endValue\":30");
}

/* As in a merged or folded profile. */
static void test_copied_profile_keeps_its_event(void **state)
{
    _cleanup_(profile_freep) struct profile *p = faults(), *folded = NULL, *merged = NULL;

    (void)state;
    assert_int_equal(profile_fold(p, &folded), 0);
    assert_int_equal(profile_new(0, &merged), 0);
    assert_string_equal(merged->type->name, "cpu");
    assert_string_equal(merged->type->unit, "nanoseconds");
    assert_int_equal(profile_merge(merged, folded, NULL), 0);
    assert_string_equal(merged->type->name, "page-faults");
    assert_string_equal(merged->type->unit, "count");
    assert_string_equal(merged->type->counts, "samples");
    assert_int_equal(fixture_weight(merged), 30);
    assert_int_equal(merged->period, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folded_prints_event_weights),
        cmocka_unit_test(test_json_names_event_and_unit),
        cmocka_unit_test(test_copied_profile_keeps_its_event),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
