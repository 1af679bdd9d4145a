/* The batch: order, bounds, and refused records. */
#include "signals/signals.h"
#include "sources/events/batch.h"

#include "probes/process.h"
#include "probes/unwind/stack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

static struct process_exit exit_record(uint64_t time_ns, uint32_t pid)
{
    return (struct process_exit){.h = {.size_bytes = sizeof(struct process_exit),
                                       .kind = RECORD_PROCESS_EXIT,
                                       .time_ns = time_ns,
                                       .pid = pid,
                                       .tid = pid}};
}

static struct batch *new_batch(size_t bytes)
{
    struct batch *b = NULL;

    assert_int_equal(batch_new(bytes, signals_check_record, &b), 0);
    return b;
}

static void test_sort_is_by_time_and_stable(void **state)
{
    static const uint64_t times[] = {5, 3, 5, 1, 3, 5};
    static const uint32_t order[] = {3, 1, 4, 0, 2, 5};
    struct batch *b = new_batch(RECORD_MAX_BYTES);

    (void)state;
    batch_begin(b, 9);
    for (uint32_t i = 0; i < array_size(times); i++) {
        struct process_exit record = exit_record(times[i], i);

        assert_int_equal(batch_add(b, &record.h), 0);
    }
    batch_end(b, 10);
    assert_int_equal(batch_count(b), array_size(times));
    for (size_t i = 0; i < array_size(order); i++)
        assert_int_equal(batch_get(b, i)->pid, order[i]);
    batch_free(b);
}

static void add_exit(struct batch *b, uint64_t time_ns, uint32_t pid)
{
    struct process_exit record = exit_record(time_ns, pid);

    assert_int_equal(batch_add(b, &record.h), 0);
}

static void add_sample(struct batch *b, uint64_t time_ns)
{
    struct process_exit record = exit_record(time_ns, 0); /* of any kind: it comes from the sample ring */

    assert_int_equal(batch_add_bytes(b, &record, sizeof(record)), 0);
}

/* A sample written while the batch is filled is returned with the next one: no later event may precede it. */
static void test_records_written_during_fill_wait(void **state)
{
    struct batch *b = new_batch(8 * RECORD_MAX_BYTES);

    (void)state;
    batch_begin(b, 100);
    add_exit(b, 150, 3);
    add_exit(b, 99, 1);
    add_exit(b, 120, 2);
    batch_end(b, 200);
    assert_int_equal(batch_count(b), 1);
    assert_int_equal(batch_get(b, 0)->pid, 1);
    batch_begin(b, 200);
    add_exit(b, 110, 4);
    batch_end(b, 300);
    assert_int_equal(batch_count(b), 3);
    assert_int_equal(batch_get(b, 0)->pid, 4);
    assert_int_equal(batch_get(b, 1)->pid, 2);
    assert_int_equal(batch_get(b, 2)->pid, 3);
    batch_begin(b, 300);
    batch_end(b, 400);
    assert_int_equal(batch_count(b), 0);
    assert_int_equal(batch_room_bytes(b), batch_max_bytes(b));
    /* Times that are not of this clock. */
    batch_begin(b, 100);
    add_exit(b, 1000, 1);
    batch_end(b, 200);
    assert_int_equal(batch_count(b), 1);
    batch_free(b);
}

/* Samples left in their ring are older than later events. */
static void test_events_after_unread_samples_wait(void **state)
{
    struct batch *b = new_batch(8 * RECORD_MAX_BYTES);
    uint64_t time_ns = 0;

    (void)state;
    batch_begin(b, 1 << 30);
    while (batch_takes_samples(b))
        add_sample(b, ++time_ns);
    batch_cut_at(b, time_ns);
    add_exit(b, 1, 1);
    add_exit(b, time_ns + 1, 2);
    add_exit(b, time_ns + 2, 3);
    const size_t in_all = time_ns + 1;
    batch_end(b, 1 << 30);
    assert_int_equal(batch_count(b), in_all);
    batch_begin(b, 1 << 30);
    assert_int_equal(batch_room_bytes(b), batch_max_bytes(b) - 2 * sizeof(struct process_exit));
    add_sample(b, time_ns + 1);
    batch_end(b, 1 << 30);
    assert_int_equal(batch_count(b), 3);
    assert_int_equal(batch_get(b, 0)->pid, 2);
    assert_int_equal(batch_get(b, 1)->pid, 0);
    assert_int_equal(batch_get(b, 2)->pid, 3);
    batch_free(b);
}

/* A later record of another ring says nothing of the samples that are left in the first one. */
static void test_cut_of_the_older_ring_decides(void **state)
{
    struct batch *b = new_batch(8 * RECORD_MAX_BYTES);
    uint64_t time_ns = 0;

    (void)state;
    batch_begin(b, 1 << 30);
    while (batch_takes_samples(b))
        add_sample(b, ++time_ns);
    batch_cut_at(b, time_ns);
    add_sample(b, time_ns + 5);
    batch_cut_at(b, time_ns + 5);
    add_exit(b, time_ns + 3, 1);
    batch_end(b, 1 << 30);
    assert_int_equal(batch_count(b), time_ns);
    batch_free(b);
}

/* A consumer that is too slow still makes progress. */
static void test_slow_consumer_makes_progress(void **state)
{
    struct batch *b = new_batch(8 * RECORD_MAX_BYTES);
    size_t count = 0;

    (void)state;
    batch_begin(b, 100);
    while (batch_room_bytes(b) > batch_max_bytes(b) * 5 / 8)
        add_exit(b, 150, (uint32_t)count++);
    batch_end(b, 200);
    assert_int_equal(batch_count(b), count);
    batch_free(b);
}

static void test_full_batch(void **state)
{
    struct batch *b = new_batch(RECORD_MAX_BYTES);
    struct process_exit record = exit_record(1, 1);
    size_t added = 0;

    (void)state;
    while (batch_add(b, &record.h) == 0)
        added++;
    assert_int_equal(added, RECORD_MAX_BYTES / sizeof(record));
    assert_int_equal(batch_add(b, &record.h), -ENOSPC);
    assert_null(batch_reserve(b, sizeof(record)));
    batch_clear(b);
    assert_int_equal(batch_room_bytes(b), batch_max_bytes(b));
    assert_int_equal(batch_add(b, &record.h), 0);
    batch_free(b);
}

static void test_reserved_records_are_rounded_and_zero(void **state)
{
    struct batch *b = new_batch(RECORD_MAX_BYTES);
    struct process_mmap *m = batch_reserve(b, sizeof(*m) + 5);

    (void)state;
    assert_non_null(m);
    assert_int_equal(m->h.size_bytes, sizeof(*m) + 8);
    assert_int_equal(m->path[7], 0);
    assert_null(batch_reserve(b, sizeof(struct record_header) - 8));
    assert_null(batch_reserve(b, RECORD_MAX_BYTES + 8));
    batch_free(b);
}

static bool refuses(struct record_header *header)
{
    struct batch *b = new_batch(4 * RECORD_MAX_BYTES);
    int r = batch_add(b, header);

    assert_int_equal(batch_count(b), r == 0);
    batch_free(b);
    return r == -EBADMSG;
}

static void test_invalid_records_are_refused(void **state)
{
    struct process_exit gone = exit_record(1, 1);
    union {
        struct process_mmap m;
        char bytes[sizeof(struct process_mmap) + 8];
    } mmap = {.m = {.h = {.size_bytes = sizeof(mmap), .kind = RECORD_PROCESS_MMAP}, .path_bytes = 3}};
    union {
        struct stack_record s;
        char bytes[sizeof(struct stack_record) + 24];
    } sample = {
        .s = {.h = {.size_bytes = sizeof(sample), .kind = RECORD_CPU_SAMPLE}, .kernel_frames = 1, .user_frames = 2}};

    (void)state;
    assert_false(refuses(&gone.h));
    gone.h.size_bytes = 16;
    assert_true(refuses(&gone.h));
    gone = exit_record(1, 1);
    gone.h.kind = 999;
    assert_true(refuses(&gone.h));

    memcpy(mmap.m.path, "/x", 3);
    assert_false(refuses(&mmap.m.h));
    mmap.m.path_bytes = 2; /* its text is not terminated */
    assert_true(refuses(&mmap.m.h));
    mmap.m.path_bytes = 9;
    assert_true(refuses(&mmap.m.h));
    mmap.m.path_bytes = 3;
    mmap.m.build_id_bytes = PROCESS_BUILD_ID_MAX_BYTES + 1;
    assert_true(refuses(&mmap.m.h));
    mmap.m.build_id_bytes = 0;
    mmap.m.start = UINT64_MAX - 1;
    mmap.m.size_bytes = 4096;
    assert_true(refuses(&mmap.m.h));

    assert_false(refuses(&sample.s.h));
    sample.s.flags = STACK_RECORD_LINKED; /* three words more */
    assert_true(refuses(&sample.s.h));
    sample.s.kernel_frames = sample.s.user_frames = 0;
    assert_false(refuses(&sample.s.h));
    sample.s.flags = 0;
    assert_true(refuses(&sample.s.h));
    sample.s.kernel_frames = 1;
    sample.s.user_frames = 3;
    assert_true(refuses(&sample.s.h));
    sample.s.user_frames = 1;
    sample.s.stack_bytes = 8;
    assert_false(refuses(&sample.s.h));
    sample.s.user_end = UNWIND_END_COUNT;
    assert_true(refuses(&sample.s.h));
    sample.s.user_end = 0;
    memset(sample.s.comm, 'x', sizeof(sample.s.comm));
    assert_true(refuses(&sample.s.h));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sort_is_by_time_and_stable),
        cmocka_unit_test(test_records_written_during_fill_wait),
        cmocka_unit_test(test_events_after_unread_samples_wait),
        cmocka_unit_test(test_cut_of_the_older_ring_decides),
        cmocka_unit_test(test_slow_consumer_makes_progress),
        cmocka_unit_test(test_full_batch),
        cmocka_unit_test(test_reserved_records_are_rounded_and_zero),
        cmocka_unit_test(test_invalid_records_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
