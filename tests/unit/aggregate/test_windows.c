/* windows.c: every type of samples gets a window of its own, whatever the type, within a bound that all share. */
#include "aggregate/windows.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>

#include <cmocka.h>

#include "../fixture.h"

#define SECOND UINT64_C(1000000000)
#define CELL   HEATMAP_SLOT_NS
#define SLOT   (5 * SECOND)
#define BASE   (1000 * SLOT)

static const struct sample_type page_faults = {.name = "page-faults", .unit = "count", .counts = "samples"},
                                transfer = {.name = "transfer",
                                            .unit = "nanoseconds",
                                            .counts = "transfers",
                                            .is_interval = true};

static struct windows *new_windows(uint32_t types_max, size_t max_bytes, size_t detail_max_bytes)
{
    const struct windows_options options = {.slot_ns = SLOT,
                                            .slots = 6,
                                            .types_max = types_max,
                                            .max_bytes = max_bytes,
                                            .detail_max_bytes = detail_max_bytes};
    struct windows *w = NULL;
    assert_int_equal(windows_new(&options, &w), 0);
    return w;
}

static int add_at(struct windows *w, const struct sample_type *type, uint64_t time_ns, const char *function)
{
    struct resource resource = fixture_resource(1, "c");
    struct frame frame = fixture_native(function);
    const struct sample s = {.type = type,
                             .time_ns = time_ns,
                             .value = 10,
                             .resource = &resource,
                             .thread_name = "t",
                             .frames = &frame,
                             .frame_count = 1};
    return windows_add(w, &s);
}

static struct profile *snapshot(struct windows *w, const struct sample_type *type)
{
    struct profile *p = NULL;
    assert_int_equal(windows_snapshot(w, BASE, BASE + SLOT, &(struct profile_filter){.type = type}, &p), 0);
    return p;
}

static void test_first_sample_of_a_type_creates_its_window(void **state)
{
    (void)state;
    static const struct sample_type *const types[] = {&sample_type_cpu, &page_faults, &transfer};
    _cleanup_(windows_freep) struct windows *w = new_windows(3, 1 << 20, 1 << 16);
    for (size_t i = 0; i < array_size(types); i++) {
        const struct profile_filter filter = {.type = types[i]};
        struct profile *none = NULL;
        assert_null(windows_find(w, types[i]));
        assert_int_equal(windows_snapshot(w, BASE, BASE + SLOT, &filter, &none), -EOPNOTSUPP);
        assert_int_equal(windows_region(w, BASE, BASE + SLOT, BASE + SLOT, &filter, &none), -EOPNOTSUPP);
        for (size_t k = 0; k <= i; k++)
            assert_int_equal(add_at(w, types[i], BASE, "f"), 0);
    }
    for (size_t i = 0; i < array_size(types); i++) {
        _cleanup_(profile_freep) struct profile *p = snapshot(w, types[i]);
        assert_int_equal(fixture_count(p), i + 1);
        assert_string_equal(p->type->name, types[i]->name);
        assert_string_equal(p->type->unit, types[i]->unit);
        assert_string_equal(p->type->counts, types[i]->counts);
        assert_int_equal(p->period, 0);
    }
}

static void test_equal_types_share_a_window(void **state)
{
    (void)state;
    const struct sample_type equal = sample_type_of_event("page-faults", "count"),
                             other = sample_type_of_event("page-faults", "bytes");
    _cleanup_(windows_freep) struct windows *w = new_windows(4, 1 << 20, 0);
    assert_int_equal(add_at(w, &page_faults, BASE, "f"), 0);
    assert_int_equal(add_at(w, &equal, BASE, "f"), 0);
    assert_ptr_equal(windows_find(w, &equal), windows_find(w, &page_faults));
    assert_null(windows_find(w, &other));
}

static void test_expected_type_is_empty_before_its_first_sample(void **state)
{
    (void)state;
    _cleanup_(windows_freep) struct windows *w = new_windows(1, 1 << 20, 0);
    assert_int_equal(windows_expect(w, &page_faults, 7), 0);
    windows_observe(w, &page_faults, true, BASE);
    windows_observe(w, &transfer, true, BASE); /* there is no such window */
    for (uint64_t i = 0; i < 2; i++) {
        _cleanup_(profile_freep) struct profile *p = snapshot(w, &page_faults);
        assert_int_equal(fixture_count(p), i);
        assert_int_equal(p->period, 7);
        assert_int_equal(p->duration_ns, SLOT);
        assert_string_equal(p->type->name, "page-faults");
        assert_int_equal(add_at(w, &page_faults, BASE, "f"), 0);
    }
}

static void test_number_of_types_is_bounded(void **state)
{
    (void)state;
    struct windows *none = NULL;
    _cleanup_(windows_freep) struct windows *w = new_windows(2, 1 << 20, 0);
    assert_int_equal(add_at(w, &sample_type_cpu, BASE, "f"), 0);
    assert_int_equal(add_at(w, &transfer, BASE, "f"), 0);
    assert_int_equal(add_at(w, &page_faults, BASE, "f"), -ENOSPC);
    assert_int_equal(windows_expect(w, &page_faults, 0), -ENOSPC);
    assert_int_equal(add_at(w, &transfer, BASE, "f"), 0);
    assert_int_equal(windows_new(&(struct windows_options){.types_max = 0}, &none), -EINVAL);
    assert_int_equal(windows_new(&(struct windows_options){.types_max = WINDOWS_TYPES_MAX + 1}, &none), -EINVAL);
    assert_null(none);
    windows_free(NULL);
}

static void test_types_share_the_memory(void **state)
{
    (void)state;
    enum { MAX_BYTES = 1 << 20, DETAIL_MAX_BYTES = 1 << 16 };
    static const struct sample_type *const types[] = {&sample_type_cpu, &page_faults, &transfer};
    _cleanup_(windows_freep) struct windows *w = new_windows(3, MAX_BYTES, DETAIL_MAX_BYTES);
    for (int i = 0; i < 60000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "function_%d", i / 6);
        const int r = add_at(w, types[i % 3], BASE + i / 10000 * SLOT, name);
        assert_true(r == 0 || r == -ENOSPC);
        if (i % 100 == 0)
            assert_true(windows_bytes(w) <= MAX_BYTES + DETAIL_MAX_BYTES);
    }
    for (size_t i = 0; i < array_size(types); i++)
        assert_in_range(window_bytes(windows_find(w, types[i])), MAX_BYTES / 8, MAX_BYTES / 3 + DETAIL_MAX_BYTES);
    const size_t before = windows_bytes(w);
    windows_trim(w);
    assert_true(windows_bytes(w) < before);
}

static void fill_slots(struct windows *w, const struct sample_type *type, int slots)
{
    for (int i = 0; i < slots * 2000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "function_%d", i);
        (void)add_at(w, type, BASE + i / 2000 * SLOT, name);
    }
}

static void test_a_smaller_limit_drops_the_oldest_slots(void **state)
{
    (void)state;
    enum { MAX_BYTES = 8 << 20, SMALLER = 1 << 20 };
    _cleanup_(windows_freep) struct windows *w = new_windows(2, MAX_BYTES, 0);
    fill_slots(w, &sample_type_cpu, 5);
    fill_slots(w, &transfer, 1);
    const size_t full = windows_bytes(w);
    assert_int_equal(windows_limit(w, MAX_BYTES * 2, 0), 0);
    assert_int_equal(windows_bytes(w), full);
    assert_in_range(full, SMALLER, MAX_BYTES);
    const size_t dropped = windows_limit(w, SMALLER, 0);
    assert_in_range(dropped, 1, 4); /* never the slot that is being filled */
    assert_true(windows_bytes(w) < full);
    _cleanup_(profile_freep) struct profile *oldest = snapshot(w, &sample_type_cpu);
    assert_int_equal(fixture_count(oldest), 0);
    fill_slots(w, &sample_type_cpu, 6); /* and the limit holds from now on */
    assert_true(window_bytes(windows_find(w, &sample_type_cpu)) <= SMALLER / 2);
}

static void test_positions_follow_a_smaller_limit(void **state)
{
    (void)state;
    _cleanup_(windows_freep) struct windows *w = new_windows(2, 1 << 20, 8 * 500);
    const struct profile_filter cpu = {.type = &sample_type_cpu};
    struct profile *p = NULL;
    for (int i = 0; i < 300; i++)
        assert_int_equal(add_at(w, &sample_type_cpu, BASE, "f"), 0);
    assert_int_equal(windows_limit(w, 1 << 20, 8 * 100), 0);
    assert_int_equal(windows_region(w, BASE, BASE + CELL, BASE + SLOT, &cpu, &p), -ENODATA);
    assert_null(p);
    _cleanup_(profile_freep) struct profile *whole = snapshot(w, &sample_type_cpu);
    assert_int_equal(fixture_count(whole), 300); /* samples stay, only their positions go */
}

/* The first type has all of the memory for positions until the second one comes. */
static void test_positions_of_a_new_type_take_their_share(void **state)
{
    (void)state;
    enum { EACH = 300, DETAIL_MAX_BYTES = 8 * 500 };
    _cleanup_(windows_freep) struct windows *w = new_windows(3, 1 << 20, DETAIL_MAX_BYTES);
    const struct profile_filter cpu = {.type = &sample_type_cpu};
    struct profile *p = NULL;
    for (int i = 0; i < EACH; i++)
        assert_int_equal(add_at(w, &sample_type_cpu, BASE, "f"), 0);
    assert_int_equal(add_at(w, &transfer, BASE, "f"), 0); /* has no positions */
    assert_int_equal(windows_region(w, BASE, BASE + CELL, BASE + SLOT, &cpu, &p), 0);
    assert_int_equal(fixture_count(p), EACH);
    profile_free(take_ptr(p));
    assert_int_equal(add_at(w, &page_faults, BASE, "f"), 0);
    assert_int_equal(windows_region(w, BASE, BASE + CELL, BASE + SLOT, &cpu, &p), -ENODATA);
    assert_null(p);
}

/* A sample of an interval has no position: regions cover whole slots. */
static void test_regions_of_intervals_cover_whole_slots(void **state)
{
    (void)state;
    _cleanup_(windows_freep) struct windows *w = new_windows(2, 1 << 20, 1 << 16);
    static const struct {
        const struct sample_type *type;
        uint64_t count;
    } cases[] = {{&page_faults, 1}, {&transfer, 2}};
    for (size_t i = 0; i < array_size(cases); i++) {
        _cleanup_(profile_freep) struct profile *p = NULL;
        const struct profile_filter filter = {.type = cases[i].type};
        assert_int_equal(add_at(w, filter.type, BASE, "f"), 0);
        assert_int_equal(add_at(w, filter.type, BASE + SECOND, "f"), 0);
        assert_int_equal(windows_region(w, BASE, BASE + CELL, BASE + SLOT, &filter, &p), 0);
        assert_int_equal(fixture_count(p), cases[i].count);
    }
}

static void test_metrics_sum_over_types(void **state)
{
    (void)state;
    _cleanup_(windows_freep) struct windows *w = new_windows(2, 1 << 20, 0);
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    assert_int_equal(add_at(w, &sample_type_cpu, BASE, "f"), 0);
    assert_int_equal(add_at(w, &sample_type_cpu, BASE, "g"), 0);
    assert_int_equal(add_at(w, &transfer, BASE, "f"), 0);
    assert_int_equal(metric_set_new(&set), 0);
    windows_metrics(w, set);
    assert_int_equal(metric_set_error(set), 0);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family family = metric_set_family(set, i);
        const double value = family.points[0].value;
        if (strcmp(family.name, "sonde_self_window_bytes") == 0)
            assert_true(value == (double)windows_bytes(w));
        if (strcmp(family.name, "sonde_self_window_slots") == 0)
            assert_true(value == 2);
        if (strcmp(family.name, "sonde_self_window_stacks") == 0)
            assert_true(value == 3);
        if (strcmp(family.name, "sonde_self_window_samples") == 0)
            assert_true(value == 3); /* on time */
    }
}

struct reader {
    struct windows *windows;
    atomic_bool ends;
};

static void *read_all(void *context)
{
    struct reader *r = context;
    while (!r->ends) {
        struct profile *p = NULL;
        const struct profile_filter filter = {.type = &transfer};
        const int e = windows_snapshot(r->windows, BASE, BASE + SLOT, &filter, &p);
        assert_true(e == 0 || e == -EOPNOTSUPP);
        profile_free(p);
        (void)windows_bytes(r->windows);
    }
    return NULL;
}

static void test_readers_see_whole_windows(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        _cleanup_(windows_freep) struct windows *w = new_windows(3, 1 << 20, 1 << 16);
        struct reader reader = {.windows = w};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, read_all, &reader), 0);
        assert_int_equal(add_at(w, &sample_type_cpu, BASE, "f"), 0);
        assert_int_equal(add_at(w, &transfer, BASE, "f"), 0);
        assert_int_equal(add_at(w, &page_faults, BASE, "f"), 0);
        reader.ends = true;
        pthread_join(thread, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_sample_of_a_type_creates_its_window),
        cmocka_unit_test(test_equal_types_share_a_window),
        cmocka_unit_test(test_expected_type_is_empty_before_its_first_sample),
        cmocka_unit_test(test_number_of_types_is_bounded),
        cmocka_unit_test(test_types_share_the_memory),
        cmocka_unit_test(test_a_smaller_limit_drops_the_oldest_slots),
        cmocka_unit_test(test_positions_follow_a_smaller_limit),
        cmocka_unit_test(test_positions_of_a_new_type_take_their_share),
        cmocka_unit_test(test_regions_of_intervals_cover_whole_slots),
        cmocka_unit_test(test_metrics_sum_over_types),
        cmocka_unit_test(test_readers_see_whole_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
