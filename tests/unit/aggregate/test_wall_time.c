/* wall_time.c: one query for running and waiting windows; wall-clock time needs both, and unmonitored time is counted
 * once, also in a region whose last slot is not over. */
#include "aggregate/wall_time.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "../fixture.h"

#define SECOND UINT64_C(1000000000)
#define SLOT   (5 * SECOND)
#define BASE   (1000 * SLOT)

static void add_weighing(struct windows *w, uint64_t time_ns, uint64_t value)
{
    struct resource resource = fixture_resource(1, "c");
    struct frame frame = fixture_native("f");
    const struct sample s = {.time_ns = time_ns,
                             .value = value,
                             .resource = &resource,
                             .thread_name = "t",
                             .frames = &frame,
                             .frame_count = 1};
    assert_int_equal(windows_add(w, &s), 0);
}

/* CPU sampling runs from BASE on; off-CPU monitoring in the second and third second, and from the 11th on. Two samples
 * of 1, two waits of 10. */
static struct wall_time new_wall_time(void)
{
    const struct windows_options of_cpu = {.slot_ns = SLOT,
                                           .slots = 6,
                                           .type = &sample_type_cpu,
                                           .period = 7,
                                           .detail_max_bytes = 1 << 20},
                                 of_waits = {.slot_ns = SLOT, .slots = 6, .type = &sample_type_off_cpu};
    struct wall_time t = {.slot_ns = SLOT};
    assert_int_equal(windows_new(&of_cpu, &t.cpu), 0);
    assert_int_equal(windows_new(&of_waits, &t.waits), 0);
    windows_observe(t.cpu, true, BASE);
    windows_observe(t.waits, false, BASE);
    windows_observe(t.waits, true, BASE + 1 * SECOND);
    windows_observe(t.waits, false, BASE + 3 * SECOND);
    windows_observe(t.waits, true, BASE + 10 * SECOND);
    for (uint64_t second = 2; second < 20; second += 10) {
        add_weighing(t.cpu, BASE + second * SECOND, 1);
        add_weighing(t.waits, BASE + second * SECOND, 10);
    }
    return t;
}

static void free_wall_time(struct wall_time *t)
{
    windows_free(t->cpu);
    windows_free(t->waits);
}

static void assert_is(const struct profile *p, uint64_t weight, uint64_t duration_ns, uint64_t not_observed_ns)
{
    assert_int_equal(fixture_weight(p), weight);
    assert_int_equal(p->duration_ns, duration_ns);
    assert_int_equal(p->not_observed_ns, not_observed_ns);
}

static void test_unmonitored_time_is_reported_once(void **state)
{
    static const struct {
        const struct sample_type *type;
        uint64_t weight, duration, not_observed; /* over 14 seconds */
    } cases[] = {{&sample_type_cpu, 2, 14, 0}, {&sample_type_off_cpu, 20, 6, 8}, {&sample_type_wall, 22, 14, 8}};
    __attribute__((cleanup(free_wall_time))) struct wall_time t = new_wall_time();
    const uint64_t now = BASE + 14 * SECOND;
    (void)state;
    for (size_t i = 0; i < array_size(cases); i++) {
        const struct profile_filter filter = {.type = cases[i].type};
        _cleanup_(profile_freep) struct profile *span = NULL, *region = NULL;
        assert_int_equal(wall_time_span(t, BASE, now, &filter, &span), 0);
        assert_is(span, cases[i].weight, cases[i].duration * SECOND, cases[i].not_observed * SECOND);
        assert_int_equal(wall_time_region(t, BASE, now + SECOND / 2, now, &filter, &region), 0);
        assert_is(region, cases[i].weight, cases[i].duration * SECOND, cases[i].not_observed * SECOND);
        assert_ptr_equal(region->type, cases[i].type);
    }
}

/* Wall-clock time then equals waiting time. */
static void test_without_cpu_samples_wall_time_is_wait_time(void **state)
{
    __attribute__((cleanup(free_wall_time))) struct wall_time t = new_wall_time();
    const struct windows_options of_cpu = {.slot_ns = SLOT, .slots = 6, .type = &sample_type_cpu, .period = 7};
    const struct profile_filter filter = {.type = &sample_type_wall};
    const uint64_t now = BASE + 14 * SECOND;
    _cleanup_(profile_freep) struct profile *span = NULL, *region = NULL;
    (void)state;
    windows_free(t.cpu);
    assert_int_equal(windows_new(&of_cpu, &t.cpu), 0);
    windows_observe(t.cpu, false, BASE);
    assert_int_equal(wall_time_span(t, BASE, now, &filter, &span), 0);
    assert_is(span, 20, 6 * SECOND, 8 * SECOND);
    assert_int_equal(wall_time_region(t, BASE, now + SECOND / 2, now, &filter, &region), 0);
    assert_is(region, 20, 6 * SECOND, 8 * SECOND);
}

static void test_invalid_regions(void **state)
{
    static const struct sample_type *const types[] = {&sample_type_cpu, &sample_type_off_cpu, &sample_type_wall};
    __attribute__((cleanup(free_wall_time))) struct wall_time t = new_wall_time();
    struct profile *p = NULL;
    (void)state;
    for (size_t i = 0; i < array_size(types); i++) {
        const struct profile_filter filter = {.type = types[i]};
        assert_int_equal(wall_time_region(t, BASE + 2, BASE + 3, BASE + 1, &filter, &p), -ERANGE);
        assert_int_equal(wall_time_region(t, BASE - 2 * SLOT, BASE - SLOT, BASE + SECOND, &filter, &p), -ENODATA);
        const struct wall_time without = {.cpu = t.cpu, .slot_ns = SLOT};
        if (filter.type != &sample_type_cpu) {
            assert_int_equal(wall_time_region(without, BASE, BASE + SLOT, BASE + SLOT, &filter, &p), -EOPNOTSUPP);
            assert_int_equal(wall_time_span(without, BASE, BASE + SLOT, &filter, &p), -EOPNOTSUPP);
        }
    }
    assert_null(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unmonitored_time_is_reported_once),
        cmocka_unit_test(test_without_cpu_samples_wall_time_is_wait_time),
        cmocka_unit_test(test_invalid_regions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
