/* Reading of the flight recorder's rings, in plain memory: the tests write as the BPF programs do. */
#include "sources/tables/flight_recorder.h"
#include "sources/tables/recorder_rings.h"

#include "probes/recorder/recorder.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SIZE      64
#define RINGS     3
#define SLACK_NS  1000
#define ALL       SIZE_MAX
#define FIRST_TID 1000

struct memory {
    struct recorder_record records[RINGS][SIZE];
    __u64 counts[RINGS];
    struct recorder_ring rings[RINGS];
};

static int set_up(void **state)
{
    struct memory *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    for (int i = 0; i < RINGS; i++)
        m->rings[i] = (struct recorder_ring){.records = m->records[i], .count = &m->counts[i], .size = SIZE};
    *state = m;
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

/* Every field says the same, so that a torn record can be recognized. */
static void put(struct memory *m, int ring, uint64_t time_ns)
{
    const __u64 number = m->counts[ring]++;
    struct recorder_record *r = &m->records[ring][number & (SIZE - 1)];
    __atomic_store_n(&r->time_ns, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&r->object, time_ns, __ATOMIC_SEQ_CST);
    __atomic_store_n(&r->value, time_ns, __ATOMIC_SEQ_CST);
    r->kind = RECORDER_SWITCH;
    r->tid = FIRST_TID + (uint32_t)ring;
    __atomic_store_n(&r->time_ns, time_ns, __ATOMIC_SEQ_CST);
}

static struct flight_window read_rings(struct memory *m, uint64_t from_ns, uint64_t to_ns, size_t max_records)
{
    struct flight_window w;
    uint64_t horizon_ns;
    assert_int_equal(recorder_rings_window(m->rings, RINGS, 10, from_ns, to_ns, max_records, &w, &horizon_ns), 0);
    for (size_t i = 0; i < w.count; i++) {
        assert_int_equal(w.records[i].object, w.records[i].time_ns);
        assert_int_equal(w.records[i].value, w.records[i].time_ns);
        assert_true(i == 0 || w.records[i].time_ns >= w.records[i - 1].time_ns);
    }
    return w;
}

static void expect_times(struct flight_window *w, const uint64_t *times, size_t count)
{
    assert_int_equal(w->count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(w->records[i].time_ns, times[i]);
    flight_recorder_window_free(w);
    assert_int_equal(w->count, 0);
}

static void test_empty_rings(void **state)
{
    struct flight_window w = read_rings(*state, 0, UINT64_MAX, ALL);
    assert_int_equal(w.complete_from_ns, 10);
    expect_times(&w, NULL, 0);
}

static void test_rings_are_merged_by_time(void **state)
{
    struct memory *m = *state;
    struct flight_window w;
    put(m, 0, 100);
    put(m, 0, 130);
    put(m, 1, 90);
    put(m, 1, 120);
    put(m, 2, 110);
    w = read_rings(m, 0, UINT64_MAX, ALL);
    assert_int_equal(w.complete_from_ns, 10);
    assert_int_equal(w.records[0].tid, FIRST_TID + 1);
    expect_times(&w, (uint64_t[]){90, 100, 110, 120, 130}, 5);
}

static void test_both_bounds_are_included(void **state)
{
    struct memory *m = *state;
    struct flight_window w;
    for (uint64_t t = 100; t < 130; t++)
        put(m, 0, t);
    w = read_rings(m, 104, 106, ALL);
    expect_times(&w, (uint64_t[]){104, 105, 106}, 3);
    w = read_rings(m, 20, 100, ALL);
    expect_times(&w, (uint64_t[]){100}, 1);
    w = read_rings(m, 129, 500, ALL);
    expect_times(&w, (uint64_t[]){129}, 1);
    w = read_rings(m, 130, 500, ALL);
    expect_times(&w, NULL, 0);
    w = read_rings(m, 20, 99, ALL);
    expect_times(&w, NULL, 0);
}

static void test_wrapped_ring_keeps_the_newest(void **state)
{
    struct memory *m = *state;
    for (uint64_t t = 1000; t < 1000 + 5 * SIZE + 7; t++)
        put(m, 0, t);
    struct flight_window w = read_rings(m, 0, UINT64_MAX, ALL);
    assert_int_equal(w.count, SIZE);
    assert_int_equal(w.records[SIZE - 1].time_ns, 1000 + 5 * SIZE + 6);
    assert_in_range(w.complete_from_ns, w.records[0].time_ns, w.records[SIZE / 4].time_ns);
    flight_recorder_window_free(&w);
}

static void test_full_ring_is_complete_from_the_beginning(void **state)
{
    struct memory *m = *state;
    for (uint64_t t = 0; t < SIZE; t++)
        put(m, 0, 1000 + t);
    struct flight_window w = read_rings(m, 0, UINT64_MAX, ALL);
    assert_int_equal(w.count, SIZE);
    assert_int_equal(w.complete_from_ns, 10);
    flight_recorder_window_free(&w);
}

/* Rings of busy CPUs reach less far back: the window is complete from where all of them are. */
static void test_uneven_horizons(void **state)
{
    struct memory *m = *state;
    for (uint64_t t = 0; t < 2 * SIZE; t++) {
        put(m, 0, 1000 + t * 100);
        put(m, 1, 9000 + t * 20);
    }
    put(m, 2, 500);
    struct flight_window w = read_rings(m, 0, UINT64_MAX, ALL);
    const uint64_t oldest_ns = 9000 + SIZE * 20;
    assert_in_range(w.complete_from_ns, oldest_ns, oldest_ns + SIZE / 4 * 20);
    assert_int_equal(w.records[0].time_ns, 500);
    flight_recorder_window_free(&w);
}

static void test_what_was_recorded_before_it_was_enabled_again_is_incomplete(void **state)
{
    struct memory *m = *state;
    struct flight_window w;
    uint64_t horizon_ns;
    for (uint64_t t = 0; t < 2 * SIZE; t++)
        put(m, 0, 1000 + t);
    assert_int_equal(recorder_rings_window(m->rings, RINGS, 50000, 0, UINT64_MAX, ALL, &w, &horizon_ns), 0);
    assert_int_equal(horizon_ns, 50000);
    assert_int_equal(w.complete_from_ns, 50000);
    flight_recorder_window_free(&w);
}

/* Of a record that is being written, the time is 0. */
static void test_half_written_record_is_left_out(void **state)
{
    struct memory *m = *state;
    struct flight_window w;
    for (uint64_t t = 100; t < 110; t++)
        put(m, 0, t);
    m->records[0][4].time_ns = 0;
    m->records[0][4].value = 77;
    w = read_rings(m, 102, 107, ALL);
    expect_times(&w, (uint64_t[]){102, 103, 105, 106, 107}, 5);
}

/* A place that was taken and not written has its record of one round before. */
static void test_record_of_one_round_before(void **state)
{
    struct memory *m = *state;
    struct flight_window w;
    for (int place = 0; place < SIZE; place++) {
        set_up((void **)&m);
        for (uint64_t t = 1000; t < 1000 + 2 * SIZE; t++)
            if (t == 1000 + SIZE + (uint64_t)place)
                m->counts[0]++;
            else
                put(m, 0, t);
        w = read_rings(m, 1000 + SIZE, UINT64_MAX, ALL);
        assert_int_equal(w.count, SIZE - 1);
        assert_true(w.complete_from_ns >= 1000 + SIZE);
        flight_recorder_window_free(&w);
        w = read_rings(m, 1000 + SIZE + SIZE / 2, UINT64_MAX, ALL);
        assert_int_equal(w.count, SIZE / 2 - (place >= SIZE / 2));
        flight_recorder_window_free(&w);
        free(m);
    }
}

/* An interrupt comes between the time and the place of a record. */
static void test_records_out_of_order(void **state)
{
    struct memory *m = *state;
    struct flight_window w;
    m->rings[0].slack_ns = SLACK_NS;
    for (uint64_t t = 10000; t < 10000 + 20 * 100; t += 100)
        put(m, 0, t);
    put(m, 0, 11250);
    put(m, 0, 12000);
    w = read_rings(m, 11200, 11300, ALL);
    expect_times(&w, (uint64_t[]){11200, 11250, 11300}, 3);
    w = read_rings(m, 11850, 12000, ALL);
    expect_times(&w, (uint64_t[]){11900, 12000}, 2);
    w = read_rings(m, 11250, 11250, ALL);
    expect_times(&w, (uint64_t[]){11250}, 1);
}

static void test_newest_of_too_many(void **state)
{
    struct memory *m = *state;
    struct flight_window w;
    for (uint64_t t = 1000; t < 1040; t += 2) {
        put(m, 0, t);
        put(m, 1, t + 1);
    }
    w = read_rings(m, 1010, 1030, 5);
    assert_int_equal(w.complete_from_ns, 1026);
    expect_times(&w, (uint64_t[]){1026, 1027, 1028, 1029, 1030}, 5);
    w = read_rings(m, 1010, 1030, 21);
    assert_int_equal(w.complete_from_ns, 10);
    assert_int_equal(w.count, 21);
    flight_recorder_window_free(&w);
    w = read_rings(m, 1010, 1030, 0);
    expect_times(&w, NULL, 0);
}

/* Several records of the same time: not all of them fit. */
static void test_too_many_at_the_same_time(void **state)
{
    struct memory *m = *state;
    struct flight_window w;
    put(m, 0, 999);
    for (int i = 0; i < 10; i++)
        put(m, 1, 1000);
    w = read_rings(m, 500, 1000, 4);
    assert_true(w.count <= 4);
    assert_true(w.complete_from_ns >= 1000);
    flight_recorder_window_free(&w);
}

static void test_sizes_of_rings(void **state)
{
    const struct recorder_record *unused = NULL;
    struct flight_recorder_size s = flight_recorder_size(16 << 20, 2);
    (void)state, (void)unused;
    assert_int_equal(s.scheduler_records, 131072);
    assert_int_equal(s.object_records, 131072);
    s = flight_recorder_size(3 * 4096 * sizeof(struct recorder_record), 1);
    assert_int_equal(s.scheduler_records, 8192);
    assert_int_equal(s.object_records, 4096);
    s = flight_recorder_size(1 << 20, 100000);
    assert_int_equal(s.scheduler_records, 2);
    assert_int_equal(s.object_records, 2);
    for (uint64_t bytes = 1 << 20; bytes <= 1 << 30; bytes += 12345678)
        for (uint32_t cpus = 1; cpus < 300; cpus += 37) {
            s = flight_recorder_size(bytes, cpus);
            assert_true((uint64_t)cpus * (s.scheduler_records + s.object_records) * sizeof(*unused) <= bytes);
            assert_true(s.scheduler_records >= s.object_records);
        }
}

struct writer {
    struct memory *memory;
    bool ends;
};

static void *write_on(void *context)
{
    struct writer *w = context;
    for (uint64_t t = 1000; !__atomic_load_n(&w->ends, __ATOMIC_RELAXED); t++) {
        __u64 *count = &w->memory->counts[0], number = *count;
        struct recorder_record *r = &w->memory->records[0][number & (SIZE - 1)];
        __atomic_store_n(count, number + 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&r->time_ns, 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&((__u64 *)r)[1], (__u64)RECORDER_SWITCH, __ATOMIC_SEQ_CST);
        __atomic_store_n(&r->object, t, __ATOMIC_SEQ_CST);
        __atomic_store_n(&r->value, t, __ATOMIC_SEQ_CST);
        __atomic_store_n(&r->time_ns, t, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

/* read_rings asserts that no record is torn. */
static void test_ring_that_is_written_meanwhile(void **state)
{
    struct writer writer = {.memory = *state};
    pthread_t thread;
    uint64_t newest_ns = 0;
    pthread_create(&thread, NULL, write_on, &writer);
    while (__atomic_load_n(&writer.memory->counts[0], __ATOMIC_RELAXED) < 3 * SIZE)
        ;
    for (int i = 0; i < 5000; i++) {
        struct flight_window w = read_rings(writer.memory, newest_ns, UINT64_MAX, ALL);
        if (w.count)
            newest_ns = w.records[w.count - 1].time_ns;
        flight_recorder_window_free(&w);
    }
    __atomic_store_n(&writer.ends, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    assert_true(newest_ns > 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_empty_rings),
        CASE(test_rings_are_merged_by_time),
        CASE(test_both_bounds_are_included),
        CASE(test_wrapped_ring_keeps_the_newest),
        CASE(test_full_ring_is_complete_from_the_beginning),
        CASE(test_uneven_horizons),
        CASE(test_what_was_recorded_before_it_was_enabled_again_is_incomplete),
        CASE(test_half_written_record_is_left_out),
        CASE(test_record_of_one_round_before),
        CASE(test_records_out_of_order),
        CASE(test_newest_of_too_many),
        CASE(test_too_many_at_the_same_time),
        CASE(test_ring_that_is_written_meanwhile),
        cmocka_unit_test(test_sizes_of_rings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
