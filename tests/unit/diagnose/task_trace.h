/* Synthetic traces of a program that schedules tasks on its threads itself, and the task that serves R. */
#pragma once

#include "flight_trace.h"

enum { TASK = 501, OTHER_TASK = 502, SLEEPING_TASK = 503 };

static inline void put_task(uint64_t us, uint32_t tid, uint64_t task, unsigned state)
{
    put(us, RECORDER_TASK, state, RECORDER_NO_SYSCALL, tid, task, (uint64_t)process_of(tid) << 32);
}

/* As put_task, with the task that created it, and by which statement. */
static inline void put_created_at(uint64_t us, uint32_t tid, uint64_t task, unsigned state, uint64_t creator, int site)
{
    put(us, RECORDER_TASK, state, site, tid, task, (uint64_t)process_of(tid) << 32 | recorder_creator(creator));
}

static inline void put_created(uint64_t us, uint32_t tid, uint64_t task, unsigned state, uint64_t creator)
{
    put_created_at(us, tid, task, state, creator, RECORDER_NO_SYSCALL);
}

static inline void put_operation(uint64_t us, uint32_t tid, uint64_t task, uint64_t socket, bool is_send)
{
    put_task(us, tid, task, RECORDER_TASK_RUNS);
    if (is_send)
        put_send(us, tid, socket);
    else
        put_receive(us, tid, socket);
}

/* The request of R, answered by thread `tid`. */
static inline void expect_task_path_between(uint64_t start_us, uint64_t end_us, uint32_t tid, const char *expected)
{
    struct path_segments path;
    _cleanup_buf_ struct buf text = {0};
    const struct flight_window window = {.records = records, .count = count};
    const struct critical_path_request request = {.socket = R,
                                                  .start_ns = US(start_us),
                                                  .read_ns = US(start_us),
                                                  .end_ns = US(end_us),
                                                  .tid = tid,
                                                  .schedules_itself = true};
    qsort(records, count, sizeof(records[0]), compare_times);
    assert_int_equal(find_path_in_window(&window, &request, &path), 0);
    describe(&path, &text);
    assert_string_equal(text.data ? text.data : "", expected);
    path_segments_clear(&path);
}

static inline void expect_task_path(uint32_t tid, const char *expected)
{
    expect_task_path_between(100, 900, tid, expected);
}
