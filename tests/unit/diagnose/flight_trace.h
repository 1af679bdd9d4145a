/* Builds synthetic traces of the flight recorder and compares the critical path found in them. Times are in
 * microseconds after an arbitrary base. An expected path is a line per segment: kind, thread, from-to, then "other",
 * "several" or "unknown" for an owner that is not this request, and "inferred". */
#pragma once

#include "diagnose/path/critical_path.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "diagnose/flight/flight_index.h"

#include <linux/types.h>

#include "probes/reclaim.h"
#include "probes/recorder/recorder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#ifndef SYS_epoll_wait /* on arm64 */
#define SYS_epoll_wait SYS_epoll_pwait
#endif

#define BASE_NS 1000000000ull
#define US(t)   (BASE_NS + (t)*1000ull)
#define CLIENT  900 /* the thread that was interrupted when something arrived */

enum { R = 1000, A = 1001, B = 1002, C = 1003, PIPE = 2000, PIPE_WRITER = 2001, SERVICE = 3000, SERVICE_PEER = 3001 };

static struct recorder_record records[4096];
static size_t count;
static uint64_t complete_from_us;

static inline void put(uint64_t us, unsigned kind, unsigned flags, int syscall, uint32_t tid, uint64_t object,
                       uint64_t value)
{
    assert_true(count < array_size(records));
    records[count++] = (struct recorder_record){.time_ns = US(us),
                                                .kind = (uint8_t)kind,
                                                .flags = (uint8_t)flags,
                                                .syscall = (int16_t)syscall,
                                                .tid = tid,
                                                .object = object,
                                                .value = value};
}

/* Threads below 100 are of one process. */
static inline uint32_t process_of(uint32_t tid)
{
    return tid < 100 ? 1 : tid;
}

static inline void put_switch(uint64_t us, uint32_t from, uint32_t to, unsigned flags, int syscall, uint64_t object)
{
    put(us, RECORDER_SWITCH, flags, syscall, from, object, (uint64_t)process_of(from) << 32 | to);
}

static inline void put_sleep(uint64_t us, uint32_t tid, int syscall, uint64_t object)
{
    put_switch(us, tid, 0, 0, syscall, object);
}

static inline void put_run(uint64_t us, uint32_t tid)
{
    put_switch(us, 0, tid, 0, RECORDER_NO_SYSCALL, 0);
}

static inline void put_waking(uint64_t us, uint32_t tid, uint32_t waker, int syscall, uint64_t object)
{
    put(us, RECORDER_WAKING, 0, syscall, tid, object, (uint64_t)process_of(waker) << 32 | waker);
}

static inline void put_interrupt_waking(uint64_t us, uint32_t tid, unsigned flags)
{
    put(us, RECORDER_WAKING, flags, RECORDER_NO_SYSCALL, tid, 0, CLIENT);
}

/* It ended at `us` and interrupted thread `tid`: `number` of interrupts.h, on CPU 1. */
static inline void put_interrupt(uint64_t us, uint32_t tid, uint32_t number, uint64_t took_us)
{
    put(us, RECORDER_INTERRUPT, 0, RECORDER_NO_SYSCALL, tid, 1ull << 32 | number, took_us * 1000);
}

/* Thread `tid` reclaimed memory until `us`, in cgroup 7. */
static inline void put_reclaim(uint64_t us, uint32_t tid, unsigned kind, uint64_t took_us)
{
    put(us, RECORDER_RECLAIM, kind, RECORDER_NO_SYSCALL, tid, 7, took_us * 1000);
}

static inline void put_arrival(uint64_t us, uint64_t socket)
{
    put(us, RECORDER_READY, RECORDER_IN_SOFTIRQ | RECORDER_TCP, RECORDER_NO_SYSCALL, CLIENT, socket, 77ull << 32);
}

/* Bytes over a pair of local sockets. */
static inline void put_local_send(uint64_t us, uint32_t tid, uint64_t from, uint64_t to, unsigned flags)
{
    put(us, RECORDER_READY, flags, RECORDER_NO_SYSCALL, tid, to, 500ull << 32);
    put(us + 1, RECORDER_SEND, flags & ~RECORDER_IN_SOFTIRQ, RECORDER_NO_SYSCALL, tid, from, 500ull << 32 | 20);
}

static inline void put_receive(uint64_t us, uint32_t tid, uint64_t socket)
{
    put(us, RECORDER_RECEIVE, socket < PIPE ? RECORDER_TCP | RECORDER_REQUESTS : 0, SYS_recvfrom, tid, socket, 100);
}

static inline void put_send(uint64_t us, uint32_t tid, uint64_t socket)
{
    put(us, RECORDER_SEND, socket < PIPE ? RECORDER_TCP | RECORDER_REQUESTS : RECORDER_TCP, RECORDER_NO_SYSCALL, tid,
        socket, 100);
}

/* The send or receive of this time had only control frames of HTTP/2. */
static inline void put_control(uint64_t us, uint32_t tid, uint64_t socket)
{
    put(us, RECORDER_CONTROL, 0, RECORDER_NO_SYSCALL, tid, socket, 0);
}

static int compare_times(const void *a, const void *b)
{
    const struct recorder_record *x = a, *y = b;
    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static inline void describe(const struct path_segments *path, struct buf *out)
{
    static const char *const owners[] = {"", " other", " several", " unknown"};
    for (size_t i = 0; i < path->count; i++) {
        const struct path_segment *s = &path->items[i];
        buf_printf(out, "%s %u %llu-%llu%s%s\n", request_part_name(s->kind), s->tid,
                   (unsigned long long)(s->start_ns - BASE_NS) / 1000, (unsigned long long)(s->end_ns - BASE_NS) / 1000,
                   owners[s->owner], s->is_inferred ? " inferred" : "");
    }
}

static inline int find_path_in_window(const struct flight_window *window, const struct critical_path_request *request,
                                      struct path_segments *ret)
{
    _cleanup_(flight_index_freep) struct flight_index *index = NULL;
    assert_int_equal(flight_index_new(window, &index), 0);
    return critical_path_find(index, request, ret);
}

/* The path of the request of socket `socket`, whose first byte arrived at `start`, answered at `end` by `tid`. The
 * caller clears it. */
static inline void find_path_of(uint64_t socket, uint64_t start_us, uint64_t end_us, uint32_t tid,
                                struct path_segments *ret)
{
    struct flight_window window = {.records = records, .count = count, .complete_from_ns = US(complete_from_us)};
    const struct critical_path_request request = {
        .socket = socket, .start_ns = US(start_us), .read_ns = US(start_us), .end_ns = US(end_us), .tid = tid};
    qsort(records, count, sizeof(records[0]), compare_times);
    assert_int_equal(find_path_in_window(&window, &request, ret), 0);
}

static inline void expect_path(uint64_t socket, uint64_t start_us, uint64_t end_us, uint32_t tid, const char *expected)
{
    struct path_segments path;
    _cleanup_buf_ struct buf text = {0};
    find_path_of(socket, start_us, end_us, tid, &path);
    describe(&path, &text);
    assert_string_equal(text.data ? text.data : "", expected);
    for (size_t i = 1; i < path.count; i++)
        assert_int_equal(path.items[i].start_ns, path.items[i - 1].end_ns);
    path_segments_clear(&path);
}

static inline int start_trace(void **state)
{
    (void)state;
    count = 0;
    complete_from_us = 0;
    return 0;
}
