/* window.c at 20 ms resolution: a heatmap sums to the profile of the same time and a region to its slots, whatever
 * the filter; when memory is short, the oldest detail is dropped first, and the drop is reported. */
#include "aggregate/window.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../fixture.h"

#define SECOND UINT64_C(1000000000)
#define CELL   HEATMAP_SLOT_NS
#define SLOT   (5 * SECOND)
#define BASE   (1000 * SLOT)
#define SLOTS  6
#define PLENTY ((size_t)1 << 20)

static struct window *new_window(size_t detail_max_bytes)
{
    struct window *w = NULL;
    const struct window_options options = {.slot_ns = SLOT,
                                           .slots = SLOTS,
                                           .type = &sample_type_cpu,
                                           .period = 7,
                                           .max_bytes = 1 << 22,
                                           .detail_max_bytes = detail_max_bytes};
    assert_int_equal(window_new(&options, &w), 0);
    return w;
}

static int add_weighing(struct window *w, uint64_t time_ns, uint32_t pid, const char *function, uint64_t value)
{
    struct resource resource = fixture_resource(pid, "c");
    struct frame frames[] = {fixture_native(function), fixture_native("main")};
    const struct sample s = {.type = &sample_type_cpu,
                             .time_ns = time_ns,
                             .value = value,
                             .resource = &resource,
                             .tid = pid,
                             .thread_name = "t",
                             .frames = frames,
                             .frame_count = 2};
    return window_add(w, &s);
}

static struct profile_amount amount_of(const struct profile *p)
{
    return (struct profile_amount){.count = fixture_count(p), .value = fixture_weight(p)};
}

static struct profile_amount region(struct window *w, uint64_t from_ns, uint64_t to_ns,
                                    const struct profile_filter *filter)
{
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(window_region(w, from_ns, to_ns, filter, &p), 0);
    return amount_of(p);
}

static void add_to(struct profile_amount *sum, const struct profile_amount *more)
{
    sum->count += more->count;
    sum->value += more->value;
}

static struct profile_amount heatmap_sum(struct window *w, uint64_t from_ns, uint64_t to_ns,
                                         const struct profile_filter *filter)
{
    _cleanup_(heatmap_freep) struct heatmap *h = NULL;
    struct profile_amount sum = {0};
    assert_int_equal(window_heatmap(w, from_ns, to_ns, filter, &h), 0);
    for (uint32_t i = 0; i < h->second_count; i++)
        for (int j = 0; j < HEATMAP_SLOTS_PER_SECOND; j++)
            add_to(&sum, &h->seconds[i].cells[j]);
    return sum;
}

static void assert_same(struct profile_amount a, struct profile_amount b)
{
    assert_int_equal(a.count, b.count);
    assert_int_equal(a.value, b.value);
}

/* Pseudo-random numbers, equal in every run. */
static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void fill(struct window *w, unsigned samples)
{
    uint64_t state = 1;
    for (unsigned i = 0; i < samples; i++) {
        char name[16];
        const uint64_t at = BASE + next_random(&state) * 16 % (4 * SLOT); /* of 31 bits each */
        snprintf(name, sizeof(name), "f%u", (unsigned)(next_random(&state) % 20));
        assert_true(add_weighing(w, at, 1 + (uint32_t)(next_random(&state) % 3), name, 1 + next_random(&state)) >= 0);
    }
}

static void test_heatmap_sums_to_the_profile(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(PLENTY);
    uint64_t random = 2;
    fill(w, 5000);
    for (uint32_t pid = 0; pid <= 4; pid++) {
        const struct profile_filter filter = {.pid = pid};
        _cleanup_(profile_freep) struct profile *all = NULL;
        assert_int_equal(window_snapshot(w, 0, UINT64_MAX, &filter, &all), 0);
        assert_same(heatmap_sum(w, 0, UINT64_MAX, &filter), amount_of(all));
        assert_same(region(w, 0, BASE + 4 * SLOT, &filter), amount_of(all));
        for (int i = 0; i < 20; i++) {
            const uint64_t from = BASE + next_random(&random) % 20 * SECOND,
                           to = from + (1 + next_random(&random) % 7) * SECOND;
            assert_same(heatmap_sum(w, from, to, &filter), region(w, from, to, &filter));
        }
    }
    assert_int_equal(region(w, BASE, BASE + 4 * SLOT, &(struct profile_filter){.pid = 4}).count, 0);
}

/* By function: not only the total, but its distribution. */
static uint64_t weight_of(const struct profile *p, const char *function)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->entry_count; i++) {
        const struct profile_frame *leaf = &p->frames[p->stack_frames[p->stacks[p->entries[i].stack].first]];
        sum += strcmp(profile_text(p, leaf->function), function) == 0 ? p->entries[i].value : 0;
    }
    return sum;
}

static void test_a_region_is_the_sum_of_its_slots(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(PLENTY);
    fill(w, 3000);
    uint64_t random = 3;
    for (int i = 0; i < 10; i++) {
        const uint64_t first = next_random(&random) % 900, end = first + 1 + next_random(&random) % 80;
        _cleanup_(profile_freep) struct profile *whole = NULL, *slots = NULL;
        assert_int_equal(window_region(w, BASE + first * CELL, BASE + end * CELL, NULL, &whole), 0);
        assert_int_equal(profile_new(0, &slots), 0);
        for (uint64_t slot = first; slot < end; slot++) {
            _cleanup_(profile_freep) struct profile *one = NULL;
            assert_int_equal(window_region(w, BASE + slot * CELL, BASE + (slot + 1) * CELL, NULL, &one), 0);
            assert_int_equal(profile_merge(slots, one, NULL), 0);
        }
        assert_same(amount_of(whole), amount_of(slots));
        assert_int_equal(whole->entry_count, slots->entry_count);
        assert_int_equal(whole->duration_ns, (end - first) * CELL);
        for (int f = 0; f < 20; f++) {
            char name[16];
            snprintf(name, sizeof(name), "f%d", f);
            assert_int_equal(weight_of(whole, name), weight_of(slots, name));
        }
    }
}

static void test_every_sample_is_in_its_slot(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(PLENTY);
    _cleanup_(heatmap_freep) struct heatmap *h = NULL;
    add_weighing(w, BASE, 1, "first", 1);
    add_weighing(w, BASE + CELL - 1, 1, "first", 10);
    add_weighing(w, BASE + CELL, 1, "second", 100);
    add_weighing(w, BASE + SLOT - 1, 1, "last", 1000);
    add_weighing(w, BASE + SLOT, 1, "next", 10000);
    assert_int_equal(region(w, BASE, BASE + CELL, NULL).value, 11);
    assert_int_equal(region(w, BASE + CELL, BASE + 2 * CELL, NULL).value, 100);
    assert_int_equal(region(w, BASE + CELL - 1, BASE + CELL + 1, NULL).value, 111); /* rounded outwards */
    assert_int_equal(region(w, BASE + SLOT - CELL, BASE + SLOT + CELL, NULL).value, 11000);
    assert_int_equal(region(w, BASE + 2 * CELL, BASE + SLOT - CELL, NULL).count, 0);
    assert_int_equal(window_heatmap(w, BASE + CELL, BASE + SLOT + 1, NULL, &h), 0);
    assert_int_equal(h->start_ns, BASE); /* rounded outwards to whole seconds */
    assert_int_equal(h->second_count, 6);
    assert_int_equal(h->seconds[0].cells[0].value, 11);
    assert_int_equal(h->seconds[0].cells[1].value, 100);
    assert_int_equal(h->seconds[4].cells[49].value, 1000);
    assert_int_equal(h->seconds[5].cells[0].value, 10000);
    assert_int_equal(h->period, 7);
}

static void test_late_samples_go_to_the_first_slot(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(PLENTY);
    add_weighing(w, BASE + 10 * SLOT, 1, "f", 1);
    add_weighing(w, BASE + 10 * SLOT, 1, "f", 1);
    add_weighing(w, BASE, 1, "late", 5);
    const uint64_t oldest = BASE + (10 - SLOTS + 1) * SLOT;
    assert_int_equal(heatmap_sum(w, oldest, oldest + SECOND, NULL).value, 5);
}

static void test_dropped_interval_is_no_region(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(PLENTY);
    struct profile *p = NULL;
    for (int i = 0; i < SLOTS + 2; i++)
        add_weighing(w, BASE + i * SLOT, 1, "f", 1);
    const uint64_t oldest = BASE + 2 * SLOT;
    assert_int_equal(window_region(w, oldest - CELL, oldest + CELL, NULL, &p), -ENODATA);
    assert_int_equal(window_region(w, BASE, BASE + CELL, NULL, &p), -ENODATA);
    assert_int_equal(region(w, oldest, oldest + CELL, NULL).count, 1);
    assert_int_equal(window_region(w, BASE - SECOND, BASE, NULL, &p), -ENODATA); /* not monitored then */
    window_trim(w);
    assert_int_equal(window_region(w, oldest, oldest + CELL, NULL, &p), -ENODATA);
    assert_int_equal(region(w, BASE + (SLOTS + 1) * SLOT, BASE + (SLOTS + 2) * SLOT, NULL).count, 1);
    assert_null(p);
}

static uint64_t details_dropped(struct window *w)
{
    struct window_stats stats = {0};
    window_add_stats(w, &stats);
    return stats.details_dropped;
}

/* Space for two slots of 300 samples, not for three. */
static void test_the_oldest_detail_goes_first(void **state)
{
    (void)state;
    enum { EACH = 300, MAX_BYTES = 8 * 1000 };
    _cleanup_(window_freep) struct window *w = new_window(MAX_BYTES);
    _cleanup_(window_freep) struct window *bare = new_window(0);
    struct profile *p = NULL;
    for (int i = 0; i < 4 * EACH; i++) {
        const uint64_t at = BASE + i / EACH * SLOT + i % EACH * 10000000ull;
        add_weighing(w, at, 1, "f", 1);
        add_weighing(bare, at, 1, "f", 1);
        assert_true(window_bytes(w) <= window_bytes(bare) + MAX_BYTES);
    }
    _cleanup_(heatmap_freep) struct heatmap *h = NULL;
    assert_int_equal(window_heatmap(w, BASE, BASE + 4 * SLOT, NULL, &h), 0);
    for (uint32_t i = 0; i < h->second_count; i++)
        assert_int_equal(h->seconds[i].kept, i >= 10);
    assert_true(details_dropped(w) == 2);
    assert_int_equal(window_region(w, BASE + SECOND, BASE + 2 * SECOND, NULL, &p), -ENODATA);
    assert_null(p);
    assert_int_equal(region(w, BASE, BASE + SLOT, NULL).count, EACH); /* whole windows need no detail */
    assert_int_equal(region(w, BASE + 2 * SLOT, BASE + 2 * SLOT + SECOND, NULL).count, 100);
    assert_int_equal(heatmap_sum(w, 0, UINT64_MAX, NULL).count, 2 * EACH);
}

/* As when another type of samples arrives that takes a share of the memory. */
static void test_less_memory_drops_the_oldest_detail(void **state)
{
    (void)state;
    enum { EACH = 300, MAX_BYTES = 8 * 1000 };
    _cleanup_(window_freep) struct window *w = new_window(MAX_BYTES);
    struct profile *p = NULL;
    for (int i = 0; i < 2 * EACH; i++)
        add_weighing(w, BASE + i / EACH * SLOT, 1, "f", 1);
    assert_int_equal(details_dropped(w), 0);
    window_limit_detail(w, MAX_BYTES / 2);
    assert_int_equal(details_dropped(w), 1);
    assert_int_equal(window_region(w, BASE, BASE + CELL, NULL, &p), -ENODATA);
    assert_null(p);
    assert_int_equal(region(w, BASE + SLOT, BASE + SLOT + CELL, NULL).count, EACH);
    assert_int_equal(region(w, BASE, BASE + SLOT, NULL).count, EACH);
}

static void test_single_window_may_exceed_the_bound(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(8 * 100), *none = new_window(0), *heavy = new_window(PLENTY);
    struct profile *p = NULL;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(add_weighing(w, BASE + i * 1000000ull, 1, "f", 1), 0);
        assert_int_equal(add_weighing(none, BASE, 1, "f", 1), 0);
    }
    assert_int_equal(window_region(w, BASE, BASE + CELL, NULL, &p), -ENODATA);
    assert_int_equal(window_region(none, BASE, BASE + CELL, NULL, &p), -ENODATA);
    assert_int_equal(region(w, BASE, BASE + SLOT, NULL).count, 1000);
    assert_true(details_dropped(w) == 1 && details_dropped(none) == 0);
    assert_int_equal(add_weighing(w, BASE + SLOT, 1, "f", 1), 0); /* the next one starts afresh */
    assert_int_equal(region(w, BASE + SLOT, BASE + SLOT + CELL, NULL).count, 1);
    assert_int_equal(add_weighing(heavy, BASE, 1, "f", UINT64_C(1) << 32), 0); /* the value does not fit a row */
    assert_int_equal(window_region(heavy, BASE, BASE + CELL, NULL, &p), -ENODATA);
    assert_int_equal(region(heavy, BASE, BASE + SLOT, NULL).value, UINT64_C(1) << 32);
    assert_null(p);
}

static void test_no_samples_yet(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(PLENTY);
    _cleanup_(heatmap_freep) struct heatmap *h = NULL;
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(window_heatmap(w, BASE, BASE + SECOND, NULL, &h), 0);
    assert_int_equal(h->second_count, 0);
    assert_int_equal(window_region(w, BASE, UINT64_MAX, NULL, &p), 0);
    assert_int_equal(p->entry_count, 0);
}

/* In every window, rows and the rest sum to the window's profile, however many rows there are. */
static void test_hotspots_sum_to_the_profile(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(PLENTY);
    fill(w, 5000);
    for (uint32_t i = 0; i < 30; i++) {
        const struct profile_filter filter = {.pid = i % 5};
        const struct hotspots_options options = {.by_change = i % 2, .max = i};
        const uint64_t from = BASE + i % 4 * SLOT, to = from + (1 + i % 3) * SLOT - SECOND;
        _cleanup_(hotspots_freep) struct hotspots *h = NULL;
        assert_int_equal(window_hotspots(w, from, to, &filter, &options, &h), 0);
        assert_int_equal(h->window_count, i % 4 + 1 + i % 3 < 4 ? 1 + i % 3 : 4 - i % 4);
        for (uint32_t j = 0; j < h->window_count; j++) {
            uint64_t sum = h->windows[j].others;
            for (uint32_t row = 0; row < h->row_count; row++)
                sum += h->rows[row].values[j];
            assert_int_equal(h->windows[j].start_ns, from + j * SLOT);
            assert_int_equal(sum, h->windows[j].value);
            assert_int_equal(sum, region(w, h->windows[j].start_ns, h->windows[j].end_ns, &filter).value);
        }
        assert_int_equal(h->row_count, filter.pid == 4 ? 0 : i < 20 ? i : 20);
    }
}

static void test_hotspots_cover_the_monitored_time(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(PLENTY);
    _cleanup_(hotspots_freep) struct hotspots *none = NULL, *all = NULL, *old = NULL;
    const struct hotspots_options options = {.max = 9};
    assert_int_equal(window_hotspots(w, 0, UINT64_MAX, NULL, &options, &none), 0);
    assert_int_equal(none->window_count, 0);
    assert_int_equal(add_weighing(w, BASE + 2 * SECOND, 1, "f", 10), 0);
    assert_int_equal(add_weighing(w, BASE + 2 * SLOT + SECOND, 1, "g", 10), 0);
    /* From the first sample to now, with an empty window in between. */
    assert_int_equal(window_hotspots(w, 0, BASE + 2 * SLOT + 4 * SECOND, NULL, &options, &all), 0);
    assert_int_equal(all->window_count, 3);
    assert_int_equal(all->windows[0].duration_ns, 3 * SECOND);
    assert_int_equal(all->windows[1].duration_ns, SLOT);
    assert_int_equal(all->windows[1].value, 0);
    assert_int_equal(all->windows[2].duration_ns, 4 * SECOND);
    /* A dropped interval has no window. */
    assert_int_equal(add_weighing(w, BASE + (SLOTS + 1) * SLOT, 1, "f", 10), 0);
    assert_int_equal(window_hotspots(w, 0, UINT64_MAX, NULL, &options, &old), 0);
    assert_int_equal(old->window_count, SLOTS);
    assert_int_equal(old->windows[0].start_ns, BASE + 2 * SLOT);
    assert_string_equal(old->rows[1].function, "g");
}

static void test_partial_slots(void **state)
{
    (void)state;
    struct window *w = NULL;
    assert_int_equal(window_new(&(struct window_options){.slot_ns = SLOT + 1, .slots = 1, .detail_max_bytes = 1}, &w),
                     -EINVAL);
    assert_int_equal(window_new(&(struct window_options){.slot_ns = 257 * CELL, .slots = 1, .detail_max_bytes = 1}, &w),
                     -EINVAL);
    assert_null(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heatmap_sums_to_the_profile),
        cmocka_unit_test(test_a_region_is_the_sum_of_its_slots),
        cmocka_unit_test(test_every_sample_is_in_its_slot),
        cmocka_unit_test(test_late_samples_go_to_the_first_slot),
        cmocka_unit_test(test_dropped_interval_is_no_region),
        cmocka_unit_test(test_the_oldest_detail_goes_first),
        cmocka_unit_test(test_less_memory_drops_the_oldest_detail),
        cmocka_unit_test(test_single_window_may_exceed_the_bound),
        cmocka_unit_test(test_no_samples_yet),
        cmocka_unit_test(test_hotspots_sum_to_the_profile),
        cmocka_unit_test(test_hotspots_cover_the_monitored_time),
        cmocka_unit_test(test_partial_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
