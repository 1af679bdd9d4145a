/* Synthetic traces of an asyncio program: an event loop, threads of its pool, and the tasks that reply to R, A and B.
 */
#pragma once

#include "flight_trace.h"

enum { LOOP = 11, WORKER = 21, OTHER_WORKER = 22, TASK = 501, TASK_OF_A = 502, TASK_OF_B = 503 };

static inline void put_task(uint64_t us, uint32_t tid, uint64_t task, unsigned state)
{
    put(us, RECORDER_TASK, state, RECORDER_NO_SYSCALL, tid, task, (uint64_t)process_of(tid) << 32);
}

/* The thread is preempted in the middle of a task, until `back`. */
static inline void put_off_cpu(uint64_t us, uint32_t tid, uint64_t task, uint64_t back_us)
{
    put_switch(us, tid, 0, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put(us, RECORDER_TASK, RECORDER_TASK_RUNS, RECORDER_NO_SYSCALL, tid, task,
        (uint64_t)process_of(tid) << 32 | RECORDER_OFF_CPU);
    put_run(back_us, tid);
}

static inline void put_timeout(uint64_t us, uint32_t tid)
{
    put_interrupt_waking(us - 2, tid, RECORDER_IN_HARDIRQ);
    put_run(us - 1, tid);
}

static inline void put_reply(uint64_t us, uint64_t task, uint64_t socket)
{
    put_task(us, LOOP, task, RECORDER_TASK_RUNS);
    put_send(us, LOOP, socket);
}

/* A thread has finished a job: a byte that it sends to the loop's socket arrives. */
static inline void put_finished(uint64_t us, uint32_t tid, uint64_t task)
{
    put_task(us, tid, task, RECORDER_TASK_FINISHED);
    put_local_send(us, tid, PIPE_WRITER, PIPE, RECORDER_UNIX);
}

/* A thread waits for a lock whose holder is recorded. */
#define GIL 0x9000
static inline void put_gil_wait(uint64_t us, uint32_t tid, uint32_t holder)
{
    put_sleep(us, tid, SYS_futex, GIL + 40);
    put(us, RECORDER_HELD, 0, RECORDER_NO_SYSCALL, tid, GIL, (uint64_t)process_of(tid) << 32 | holder);
}
