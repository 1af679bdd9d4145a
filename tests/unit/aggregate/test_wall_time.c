/* wall_time.c: wall-clock time needs both windows, and time that was not monitored is counted once, also in a region
 * whose last slot is not over. */
#include "aggregate/wall_time.h"

#include "aggregate/windows.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "../fixture.h"

#define SECOND UINT64_C(1000000000)
#define SLOT   (5 * SECOND)
#define BASE   (1000 * SLOT)

static const struct windows_options options = {
    .slot_ns = SLOT, .slots = 6, .types_max = 2, .detail_max_bytes = 1 << 20};

static void add(struct windows *w, const struct sample_type *type, uint64_t time_ns, uint64_t value)
{
    struct resource resource = fixture_resource(1, "c");
    struct frame frame = fixture_native("f");
    const struct sample s = {.type = type,
                             .time_ns = time_ns,
                             .value = value,
                             .resource = &resource,
                             .thread_name = "t",
                             .frames = &frame,
                             .frame_count = 1};
    assert_int_equal(windows_add(w, &s), 0);
}

/* CPU sampling runs from BASE on, if at all; off-CPU monitoring in the second and third second, and from the 11th on.
 * Two samples of 1, two waits of 10. */
static struct windows *new_windows(bool samples_cpu)
{
    struct windows *w = NULL;
    assert_int_equal(windows_new(&options, &w), 0);
    assert_int_equal(windows_expect(w, &sample_type_cpu, 7), 0);
    assert_int_equal(windows_expect(w, &sample_type_off_cpu, 0), 0);
    windows_observe(w, &sample_type_cpu, samples_cpu, BASE);
    windows_observe(w, &sample_type_off_cpu, false, BASE);
    windows_observe(w, &sample_type_off_cpu, true, BASE + 1 * SECOND);
    windows_observe(w, &sample_type_off_cpu, false, BASE + 3 * SECOND);
    windows_observe(w, &sample_type_off_cpu, true, BASE + 10 * SECOND);
    for (uint64_t second = 2; second < 20; second += 10) {
        if (samples_cpu)
            add(w, &sample_type_cpu, BASE + second * SECOND, 1);
        add(w, &sample_type_off_cpu, BASE + second * SECOND, 10);
    }
    return w;
}

static void assert_is(const struct profile *p, uint64_t value, uint64_t duration_ns, uint64_t not_observed_ns)
{
    assert_int_equal(fixture_weight(p), value);
    assert_int_equal(p->duration_ns, duration_ns);
    assert_int_equal(p->not_observed_ns, not_observed_ns);
}

static void test_unmonitored_time_is_reported_once(void **state)
{
    static const struct {
        const struct sample_type *type;
        uint64_t value, duration, not_observed; /* over 14 seconds */
    } cases[] = {{&sample_type_cpu, 2, 14, 0}, {&sample_type_off_cpu, 20, 6, 8}, {&sample_type_wall, 22, 14, 8}};
    _cleanup_(windows_freep) struct windows *w = new_windows(true);
    const uint64_t now = BASE + 14 * SECOND;
    (void)state;
    for (size_t i = 0; i < array_size(cases); i++) {
        const struct profile_filter filter = {.type = cases[i].type};
        _cleanup_(profile_freep) struct profile *span = NULL, *region = NULL;
        assert_int_equal(windows_snapshot(w, BASE, now, &filter, &span), 0);
        assert_is(span, cases[i].value, cases[i].duration * SECOND, cases[i].not_observed * SECOND);
        assert_int_equal(windows_region(w, BASE, now + SECOND / 2, now, &filter, &region), 0);
        assert_is(region, cases[i].value, cases[i].duration * SECOND, cases[i].not_observed * SECOND);
        assert_ptr_equal(region->type, cases[i].type);
    }
}

static void test_without_cpu_samples_wall_time_is_off_cpu_time(void **state)
{
    _cleanup_(windows_freep) struct windows *w = new_windows(false);
    const struct profile_filter filter = {.type = &sample_type_wall};
    const uint64_t now = BASE + 14 * SECOND;
    _cleanup_(profile_freep) struct profile *span = NULL, *region = NULL;
    (void)state;
    assert_int_equal(windows_snapshot(w, BASE, now, &filter, &span), 0);
    assert_is(span, 20, 6 * SECOND, 8 * SECOND);
    assert_int_equal(windows_region(w, BASE, now + SECOND / 2, now, &filter, &region), 0);
    assert_is(region, 20, 6 * SECOND, 8 * SECOND);
}

static void test_invalid_regions(void **state)
{
    static const struct sample_type *const types[] = {&sample_type_cpu, &sample_type_off_cpu, &sample_type_wall};
    _cleanup_(windows_freep) struct windows *w = new_windows(true), *without = NULL;
    struct profile *p = NULL;
    (void)state;
    assert_int_equal(windows_new(&options, &without), 0);
    assert_int_equal(windows_expect(without, &sample_type_cpu, 7), 0);
    for (size_t i = 0; i < array_size(types); i++) {
        const struct profile_filter filter = {.type = types[i]};
        assert_int_equal(windows_region(w, BASE + 2, BASE + 3, BASE + 1, &filter, &p), -ERANGE);
        assert_int_equal(windows_region(w, BASE - 2 * SLOT, BASE - SLOT, BASE + SECOND, &filter, &p), -ENODATA);
        if (filter.type == &sample_type_cpu)
            continue;
        assert_int_equal(windows_region(without, BASE, BASE + SLOT, BASE + SLOT, &filter, &p), -EOPNOTSUPP);
        assert_int_equal(windows_snapshot(without, BASE, BASE + SLOT, &filter, &p), -EOPNOTSUPP);
    }
    assert_null(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unmonitored_time_is_reported_once),
        cmocka_unit_test(test_without_cpu_samples_wall_time_is_off_cpu_time),
        cmocka_unit_test(test_invalid_regions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
