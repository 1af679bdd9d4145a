/* window.c: slots are added and dropped whole, a snapshot loses nothing, memory stays within its bound, and readers
 * and the writer do not disturb each other. */
#include "aggregate/window.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../fixture.h"

#define SECOND UINT64_C(1000000000)
#define SLOT   (5 * SECOND)
#define BASE   (1000 * SLOT) /* when the tests' samples begin */

static struct window *new_window(uint32_t slots, size_t max_bytes)
{
    struct window *w = NULL;
    assert_int_equal(
        window_new(
            &(struct window_options){
                .slot_ns = SLOT, .slots = slots, .type = &sample_type_cpu, .period = 7, .max_bytes = max_bytes},
            &w),
        0);
    return w;
}

static int add_at(struct window *w, uint64_t time_ns, uint32_t pid, const char *function)
{
    struct resource resource = fixture_resource(pid, "c");
    struct frame frames[] = {fixture_native(function)};
    const struct sample s = {.type = &sample_type_cpu,
                             .time_ns = time_ns,
                             .value = 10,
                             .resource = &resource,
                             .tid = 1,
                             .thread_name = "t",
                             .frames = frames,
                             .frame_count = 1};
    return window_add(w, &s);
}

static uint64_t count_between(struct window *w, uint64_t from_ns, uint64_t to_ns)
{
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(window_snapshot(w, from_ns, to_ns, NULL, &p), 0);
    assert_int_equal(fixture_weight(p), 10 * fixture_count(p));
    return fixture_count(p);
}

/* Also for an empty interval. */
static void test_snapshot_has_its_interval(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = NULL;
    assert_int_equal(
        window_new(
            &(struct window_options){.slot_ns = SLOT, .slots = 4, .max_bytes = 1 << 20, .type = &sample_type_off_cpu},
            &w),
        0);
    for (int i = 0; i < 2; i++) {
        _cleanup_(profile_freep) struct profile *span = NULL, *region = NULL;
        assert_int_equal(window_snapshot(w, 0, UINT64_MAX, NULL, &span), 0);
        assert_int_equal(window_region(w, BASE, BASE + SLOT, NULL, &region), 0);
        assert_string_equal(span->type->name, "off_cpu");
        assert_string_equal(region->type->name, "off_cpu");
        assert_int_equal(fixture_count(region), i);
        assert_int_equal(add_at(w, BASE + 1, 3, "f"), 0);
    }
}

static void test_no_samples_yet(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(4, 1 << 20);
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(window_snapshot(w, 0, UINT64_MAX, NULL, &p), 0);
    assert_int_equal(p->entry_count, 0);
    assert_int_equal(p->duration_ns, 0);
    assert_int_equal(p->period, 7);
    window_free(NULL);
}

/* In Python, almost every stack has other lines; compiled code, where few frames have lines, keeps them. */
static void test_interpreters_keep_no_lines(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(4, 1 << 20);
    _cleanup_(profile_freep) struct profile *p = NULL;
    struct resource resource = fixture_resource(1, "c");
    struct frame frames[] = {fixture_frame(FRAME_INTERPRETED, "work", "[python]", 0), fixture_native("main")};
    for (frames[0].line = 1; frames[0].line <= 4; frames[0].line++) {
        frames[1].line = 7;
        const struct sample s = {.type = &sample_type_cpu,
                                 .time_ns = BASE,
                                 .value = 10,
                                 .resource = &resource,
                                 .thread_name = "t",
                                 .frames = frames,
                                 .frame_count = 2};
        assert_int_equal(window_add(w, &s), 0);
    }
    assert_int_equal(window_snapshot(w, BASE, BASE + SLOT, NULL, &p), 0);
    assert_int_equal(p->entry_count, 1);
    assert_int_equal(p->entries[0].count, 4);
    const uint32_t *stack = p->stack_frames + p->stacks[p->entries[0].stack].first;
    assert_true(p->frames[stack[0]].line == 0 && p->frames[stack[1]].line == 7);
}

static void test_invalid_options_are_refused(void **state)
{
    (void)state;
    struct window *w = NULL;
    assert_int_equal(window_new(&(struct window_options){.slot_ns = 0, .slots = 1}, &w), -EINVAL);
    assert_int_equal(window_new(&(struct window_options){.slot_ns = 1, .slots = 0}, &w), -EINVAL);
    assert_null(w);
}

static void test_snapshot_covers_whole_slots(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(4, 1 << 20);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j <= i; j++)
            assert_int_equal(add_at(w, BASE + i * SLOT + j * SECOND, 1, "f"), 0);
    assert_int_equal(count_between(w, 0, UINT64_MAX), 1 + 2 + 3 + 4);
    assert_int_equal(count_between(w, BASE, BASE + 1), 1);
    assert_int_equal(count_between(w, BASE + 4 * SECOND, BASE + SLOT), 1);
    assert_int_equal(count_between(w, BASE + SLOT, BASE + 2 * SLOT), 2);
    assert_int_equal(count_between(w, BASE + 2 * SLOT - 1, BASE + 2 * SLOT + 1), 2 + 3);
    assert_int_equal(count_between(w, 0, BASE), 0);
    assert_int_equal(count_between(w, BASE + 4 * SLOT, UINT64_MAX), 0);
}

static void test_old_slots_are_dropped_whole(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(4, 1 << 20);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(add_at(w, BASE + i * SLOT, 1, "f"), 0);
        assert_int_equal(count_between(w, 0, UINT64_MAX), i < 4 ? i + 1 : 4);
    }
    assert_int_equal(add_at(w, BASE + 12 * SLOT, 1, "f"), 0); /* a gap: slots 9 and 12 are left */
    assert_int_equal(count_between(w, 0, UINT64_MAX), 2);
    assert_int_equal(add_at(w, BASE + 1000 * SLOT, 1, "f"), 0);
    assert_int_equal(count_between(w, 0, UINT64_MAX), 1);
}

static void test_late_samples_go_to_the_oldest_slot(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(4, 1 << 20);
    assert_int_equal(add_at(w, BASE + 10 * SLOT, 1, "f"), 0);
    assert_int_equal(add_at(w, BASE + 8 * SLOT, 1, "g"), 0); /* out of order, but stored in its slot */
    assert_int_equal(add_at(w, BASE, 1, "h"), 0);            /* late */
    assert_int_equal(add_at(w, 0, 1, "h"), 0);
    assert_int_equal(count_between(w, 0, UINT64_MAX), 4);
    assert_int_equal(count_between(w, BASE + 8 * SLOT, BASE + 9 * SLOT), 1);
    assert_int_equal(count_between(w, BASE + 7 * SLOT, BASE + 8 * SLOT), 2);
}

static void test_durations_are_monitored_time(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(4, 1 << 20);
    _cleanup_(profile_freep) struct profile *all = NULL, *last = NULL, *slot = NULL;
    assert_int_equal(add_at(w, BASE + 2 * SECOND, 1, "f"), 0);
    assert_int_equal(add_at(w, BASE + 9 * SECOND, 1, "f"), 0);
    /* From the first sample to now. */
    assert_int_equal(window_snapshot(w, 0, BASE + 12 * SECOND, NULL, &all), 0);
    assert_int_equal(all->duration_ns, 10 * SECOND);
    int64_t off = (int64_t)(all->start_unix_ns - clock_unix_from_monotonic(BASE + 2 * SECOND));
    assert_true(off > -(int64_t)SECOND && off < (int64_t)SECOND);
    assert_int_equal(window_snapshot(w, 0, UINT64_MAX, NULL, &last), 0);
    assert_int_equal(last->duration_ns, 7 * SECOND);
    /* A slot in the past is complete. */
    assert_int_equal(window_snapshot(w, BASE, BASE + SECOND, NULL, &slot), 0);
    assert_int_equal(slot->duration_ns, 3 * SECOND);
}

static void test_trim_releases_the_older_half(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(8, 1 << 20);
    _cleanup_(profile_freep) struct profile *left = NULL;
    window_trim(w); /* nothing to drop */
    for (int i = 0; i < 6; i++)
        assert_int_equal(add_at(w, BASE + i * SLOT, 1, "f"), 0);
    window_trim(w);
    assert_int_equal(window_snapshot(w, 0, BASE + 6 * SLOT, NULL, &left), 0);
    assert_int_equal(count_between(w, 0, UINT64_MAX), 3);
    assert_int_equal(left->duration_ns, 3 * SLOT); /* shares are relative to the remaining time */
    assert_int_equal(add_at(w, BASE, 1, "f"), 0);  /* late: goes to the oldest slot */
    assert_int_equal(count_between(w, BASE + 3 * SLOT, BASE + 4 * SLOT), 2);
    for (int i = 0; i < 5; i++)
        window_trim(w);
    assert_int_equal(count_between(w, 0, UINT64_MAX), 1); /* the newest stays */
    assert_int_equal(add_at(w, BASE + 6 * SLOT, 1, "f"), 0);
    assert_int_equal(count_between(w, 0, UINT64_MAX), 2);
}

static void test_filters_apply_to_the_merge(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(4, 1 << 20);
    for (uint32_t pid = 1; pid <= 3; pid++)
        for (uint32_t i = 0; i < pid; i++)
            assert_int_equal(add_at(w, BASE + i * SLOT, pid, "f"), 0);
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(window_snapshot(w, 0, UINT64_MAX, &(struct profile_filter){.pid = 3}, &p), 0);
    assert_int_equal(fixture_count(p), 3);
    assert_int_equal(p->resource_count, 1);
    assert_int_equal(p->entry_count, 1); /* equal entries of three slots are one */
}

static struct window_stats stats_of(struct window *w)
{
    struct window_stats stats = {0};
    window_add_stats(w, &stats);
    return stats;
}

static void test_memory_is_bounded_and_released(void **state)
{
    (void)state;
    enum { MAX_BYTES = 1 << 20 };
    _cleanup_(window_freep) struct window *w = new_window(4, MAX_BYTES);
    uint64_t added = 0, dropped = 0;
    for (int i = 0; i < 40000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "function_%d", i);
        int r = add_at(w, BASE + (i / 10000) * SLOT, 1, name);
        assert_true(r == 0 || r == -ENOSPC);
        r == 0 ? added++ : dropped++;
    }
    assert_true(dropped > 0);
    assert_true(stats_of(w).bytes <= MAX_BYTES);
    assert_true(stats_of(w).bytes > MAX_BYTES / 2);
    assert_true(stats_of(w).dropped == dropped);
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(window_snapshot(w, 0, UINT64_MAX, NULL, &p), 0);
    assert_int_equal(fixture_count(p), added); /* a snapshot of full slots is complete */
    assert_int_equal(p->dropped, dropped);
    assert_int_equal(add_at(w, BASE + 100 * SLOT, 1, "f"), 0);
    assert_true(stats_of(w).bytes < 16384);
    assert_true(stats_of(w).slots == 1);
}

/* Adds functions first .. end that no other slot has; returns how many fit. */
static int add_burst(struct window *w, uint64_t slot, int first, int end)
{
    int added = 0;
    for (int i = first; i < end; i++) {
        char name[48];
        snprintf(name, sizeof(name), "function_%d_of_%d", i, (int)slot);
        added += add_at(w, BASE + slot * SLOT, 1, name) == 0;
    }
    return added;
}

static uint64_t count_of_slot(struct window *w, uint64_t slot)
{
    return count_between(w, BASE + slot * SLOT, BASE + (slot + 1) * SLOT - 1);
}

/* A node that is busy with large programs has a shorter history, and no current sample is dropped. */
static void test_oldest_slots_give_way(void **state)
{
    (void)state;
    enum { SLOTS = 8, MAX_BYTES = 2 << 20, BURST = 2000, FAR_TOO_MANY = 20000 };
    _cleanup_(window_freep) struct window *w = new_window(SLOTS, MAX_BYTES);
    for (uint64_t slot = 0; slot < SLOTS; slot++) {
        assert_int_equal(add_burst(w, slot, 0, BURST), BURST);
        assert_true(window_bytes(w) <= MAX_BYTES);
    }
    assert_int_equal(stats_of(w).dropped, 0);
    assert_int_equal(count_of_slot(w, 0), 0);
    for (uint64_t slot = SLOTS - 3; slot < SLOTS; slot++)
        assert_int_equal(count_of_slot(w, slot), BURST);
    struct profile *p;
    assert_int_equal(window_region(w, BASE, BASE + 2 * SLOT, NULL, &p), -ENODATA); /* not: "no samples" */
    /* A burst takes a quarter of the memory, and leaves the slots before it. */
    assert_in_range(add_burst(w, SLOTS, 0, FAR_TOO_MANY), BURST + 1, FAR_TOO_MANY - 1);
    assert_int_equal(count_of_slot(w, SLOTS - 1), BURST);
    assert_int_equal(count_of_slot(w, SLOTS - 2), BURST);
    assert_true(window_bytes(w) <= MAX_BYTES);
    /* A late sample to a slot that is still empty does not end the present slot. */
    assert_int_equal(add_burst(w, 20, 0, BURST / 2), BURST / 2);
    assert_int_equal(add_burst(w, 19, 0, 1), 1);
    assert_int_equal(add_at(w, BASE + 20 * SLOT, 2, "another"), 0);
    assert_in_range(add_burst(w, 20, BURST, FAR_TOO_MANY), BURST / 2, FAR_TOO_MANY);
    assert_true(window_bytes(w) <= MAX_BYTES);
}

struct readers {
    struct window *w;
    atomic_bool stop;
    atomic_int snapshots;
};

static void *read_continuously(void *argument)
{
    struct readers *readers = argument;
    while (!atomic_load(&readers->stop)) {
        struct profile *p = NULL;
        if (window_snapshot(readers->w, 0, UINT64_MAX, NULL, &p) == 0)
            atomic_fetch_add(&readers->snapshots, 1);
        profile_free(p);
    }
    return NULL;
}

static void test_readers_run_concurrently_with_the_writer(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(4, 1 << 22);
    struct readers readers = {.w = w};
    pthread_t threads[2];
    for (size_t i = 0; i < array_size(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_continuously, &readers), 0);
    uint64_t added = 0;
    for (int i = 0; i < 20000 || atomic_load(&readers.snapshots) < 20; i++) {
        char name[32];
        snprintf(name, sizeof(name), "f%d", i % 100);
        added += add_at(w, BASE + (uint64_t)i * SECOND / 100, i % 3, name) == 0;
    }
    atomic_store(&readers.stop, true);
    for (size_t i = 0; i < array_size(threads); i++)
        pthread_join(threads[i], NULL);
    assert_true(stats_of(w).on_time == (double)added);
}

static void assert_observed(const struct profile *p, uint64_t duration_ns, uint64_t not_observed_ns)
{
    assert_int_equal(p->duration_ns, duration_ns);
    assert_int_equal(p->not_observed_ns, not_observed_ns);
}

/* Distinguishes "no samples" from "not monitored". */
static void test_unmonitored_time_is_distinct_from_no_samples(void **state)
{
    (void)state;
    _cleanup_(window_freep) struct window *w = new_window(24, 1 << 20);
    window_observe(w, true, BASE + SECOND);
    window_observe(w, true, BASE + 2 * SECOND); /* it was monitored already */
    add_at(w, BASE + 4 * SECOND, 1, "f");
    window_observe(w, false, BASE + 11 * SECOND);
    window_observe(w, false, BASE + 12 * SECOND);
    window_observe(w, true, BASE + 31 * SECOND);
    const struct {
        uint64_t from, to, duration, not_observed; /* seconds */
    } regions[] = {{0, 5, 4, 1}, {5, 15, 6, 4}, {15, 30, 0, 15}, {30, 40, 9, 1}, {0, 40, 19, 21}};
    for (size_t i = 0; i < array_size(regions); i++) {
        _cleanup_(profile_freep) struct profile *region = NULL;
        assert_int_equal(
            window_region(w, BASE + regions[i].from * SECOND, BASE + regions[i].to * SECOND, NULL, &region), 0);
        assert_observed(region, regions[i].duration * SECOND, regions[i].not_observed * SECOND);
    }
    _cleanup_(profile_freep) struct profile *span = NULL, *wall = NULL;
    assert_int_equal(window_snapshot(w, BASE - 60 * SECOND, BASE + 41 * SECOND, NULL, &span), 0);
    assert_observed(span, 20 * SECOND,
                    20 * SECOND); /* time before the beginning was not requested: what exists is returned */
    assert_int_equal(window_observed_ns(w, BASE + 41 * SECOND), 20 * SECOND);
    assert_int_equal(profile_fold(span, &wall), 0);
    assert_int_equal(wall->not_observed_ns, 20 * SECOND);

    struct profile *none = NULL;
    assert_int_equal(window_region(w, BASE - SECOND, BASE + SECOND, NULL, &none), -ENODATA);
    assert_null(none);
    for (int i = 0; i < 100; i++) /* the oldest intervals are dropped, their sum is kept */
        window_observe(w, i % 2, BASE + (42 + (uint64_t)i) * SECOND);
    assert_int_equal(window_observed_ns(w, BASE + 141 * SECOND), 70 * SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshot_has_its_interval),
        cmocka_unit_test(test_no_samples_yet),
        cmocka_unit_test(test_interpreters_keep_no_lines),
        cmocka_unit_test(test_invalid_options_are_refused),
        cmocka_unit_test(test_snapshot_covers_whole_slots),
        cmocka_unit_test(test_old_slots_are_dropped_whole),
        cmocka_unit_test(test_late_samples_go_to_the_oldest_slot),
        cmocka_unit_test(test_durations_are_monitored_time),
        cmocka_unit_test(test_unmonitored_time_is_distinct_from_no_samples),
        cmocka_unit_test(test_trim_releases_the_older_half),
        cmocka_unit_test(test_filters_apply_to_the_merge),
        cmocka_unit_test(test_memory_is_bounded_and_released),
        cmocka_unit_test(test_oldest_slots_give_way),
        cmocka_unit_test(test_readers_run_concurrently_with_the_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
