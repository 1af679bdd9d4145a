/* Linux AIO: from io_submit to the event. Part of io.bpf.c.
 *
 * Events lie in a ring that the kernel shares with the program, and reach it by io_getevents, or without a system call.
 * Events of io_getevents are read from its result. The ring is read before that, and when the program submits more: it
 * has room for all requests in flight, so whatever the program took from it meanwhile is still there. A part of it that
 * cannot be read has not been touched by the program: its events will come by io_getevents. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/common/syscalls.bpf.h"
#include "probes/io/io_file.bpf.h"
#include "probes/io/io_readers.bpf.h"

#define IO_SUBMIT_MAX 65536 /* requests that one call may submit: more than rings have room for */
#define IO_RING_MAX   65536 /* events that are read at once */

/* ABI: struct iocb, io_event (linux/aio_abi.h), and the head of the ring. */
struct aio_iocb {
    __u64 data;
    __u32 key, rw_flags;
    __u16 opcode;
    __s16 priority;
    __s32 fd;
    __u64 buffer, size, offset;
};

struct aio_event {
    __u64 data;
    struct aio_result {
        __u64 request;
        __s64 result;
    } result;
    __s64 result2;
};

struct aio_ring_head {
    __u32 id, size, head, tail, magic, compatible, incompatible, head_bytes;
};

#define AIO_RING_MAGIC 0xa10a10a1

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, IO_MAX_REQUESTS);
    __type(key, struct aio_key);
    __type(value, struct aio_request);
} aio_requests SEC(".maps");

/* How far each ring has been read. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, IO_MAX_RINGS);
    __type(key, struct aio_key);
    __type(value, __u32);
} aio_rings SEC(".maps");

static __always_inline __u64 current_process(void)
{
    return bpf_get_current_pid_tgid() >> 32;
}

static __always_inline __u8 operation_of_aio(__u16 opcode)
{
    switch (opcode) {
    case 0: /* PREAD */
    case 7: /* PREADV */
        return IO_READ;
    case 1: /* PWRITE */
    case 8: /* PWRITEV */
        return IO_WRITE;
    case 2: /* FSYNC */
    case 3: /* FDSYNC */
        return IO_SYNC;
    }
    return IO_NONE;
}

/* Little is kept on the stack here and below: the calls are deep, and it is limited for all of them together. */
static __noinline int aio_ended(__u64 request, __s64 result, __u64 now)
{
    struct aio_key key = {current_process(), request};
    struct aio_request *found = bpf_map_lookup_elem(&aio_requests, &key);
    if (!found || __sync_val_compare_and_swap(&found->is_counted, 0, 1) != 0)
        return 0;
    count_operation(io_cgroup_of((const void *)bpf_get_current_task()), &found->file, found->operation, result,
                    found->start_ns, now);
    if (bpf_map_delete_elem(&aio_requests, &key) == 0)
        note_begun(-1);
    return 0;
}

/* ---- the ring ---- */

struct aio_reading {
    __u64 events; /* their address */
    __u64 now;
    __u32 size, tail, next;
};

static long aio_ring_step(__u32 i, struct aio_reading *reading)
{
    struct aio_result event;
    if (reading->next == reading->tail)
        return 1;
    const struct aio_event *at = (const struct aio_event *)reading->events + reading->next;
    if (bpf_probe_read_user(&event, sizeof(event), &at->result) < 0)
        return 1;
    reading->next = reading->next + 1 < reading->size ? reading->next + 1 : 0;
    aio_ended(event.request, event.result, reading->now);
    return 0;
}

/* False: `ring` cannot be read, or is no ring. */
static __noinline bool aio_ring_open(__u64 ring, struct aio_reading *ret)
{
    struct aio_ring_head head;
    if (bpf_probe_read_user(&head, sizeof(head), (const void *)ring) < 0 || head.magic != AIO_RING_MAGIC ||
        head.tail >= head.size)
        return false;
    ret->events = ring + head.head_bytes;
    ret->size = head.size;
    ret->tail = head.tail;
    ret->next = head.head;
    ret->now = bpf_ktime_get_ns();
    return true;
}

/* Counts the events since the last reading, as far as they can be read. */
static __noinline int aio_read_ring(__u64 ring)
{
    struct aio_key key = {current_process(), ring};
    struct aio_reading reading = {};
    if (!aio_ring_open(ring, &reading))
        return 0;
    const __u32 *next = bpf_map_lookup_elem(&aio_rings, &key);
    reading.next = next ? *next : reading.tail; /* one from before the recording: its past is not counted */
    if (reading.next < reading.size)
        bpf_loop(IO_RING_MAX, aio_ring_step, &reading, 0);
    bpf_map_update_elem(&aio_rings, &key, &reading.next, BPF_ANY);
    return 0;
}

/* io_setup(entries, &ring) has made one. */
static __noinline int aio_setup_end(__u64 address)
{
    struct aio_key key = {.process = current_process()};
    const __u32 zero = 0;
    if (bpf_probe_read_user(&key.address, sizeof(key.address), (const void *)address) == 0)
        bpf_map_update_elem(&aio_rings, &key, &zero, BPF_ANY);
    return 0;
}

/* ---- io_getevents ---- */

struct aio_events {
    __u64 address;
    __u64 now;
};

static long aio_event_step(__u32 i, struct aio_events *events)
{
    struct aio_result event;
    const struct aio_event *at = (const struct aio_event *)events->address + i;
    struct io_stats *stat = stats_get();
    if (bpf_probe_read_user(&event, sizeof(event), &at->result) == 0)
        aio_ended(event.request, event.result, events->now);
    else if (stat)
        stat->unseen++;
    return 0;
}

/* It has returned that many events from the ring. */
static __noinline int aio_events_end(__u64 ring, __u64 address, __s64 count)
{
    struct aio_events events = {address, bpf_ktime_get_ns()};
    struct aio_key key = {current_process(), ring};
    struct aio_reading reading = {};
    if (count <= 0)
        return 0;
    bpf_loop(count < IO_RING_MAX ? count : IO_RING_MAX, aio_event_step, &events, 0);
    if (aio_ring_open(ring, &reading))
        bpf_map_update_elem(&aio_rings, &key, &reading.next, BPF_ANY);
    return 0;
}

/* ---- io_submit ---- */

struct aio_submission {
    __u64 list; /* of addresses of requests */
    __u64 now;
    __u64 first; /* of the ones that are forgotten */
};

static __always_inline bool aio_address(const struct aio_submission *s, __u32 i, struct aio_key *ret)
{
    ret->process = current_process();
    return bpf_probe_read_user(&ret->address, sizeof(ret->address), (const char *)s->list + 8ull * i) == 0;
}

static long aio_request_begin(__u32 i, struct aio_submission *s)
{
    struct aio_key key;
    struct aio_iocb request;
    struct aio_request pending = {.start_ns = s->now};
    struct io_stats *stat = stats_get();
    if (!aio_address(s, i, &key) || bpf_probe_read_user(&request, sizeof(request), (const void *)key.address) < 0) {
        if (stat)
            stat->unseen++;
        return 0;
    }
    pending.operation = operation_of_aio(request.opcode);
    const void *file = open_file((const void *)bpf_get_current_task(), request.fd);
    if (!pending.operation || !file_of(file, &pending.file))
        return 0;
    if (by_access || slow_ns)
        pending.file.offset = request.offset;
    pending.file.dentry = 0; /* the file may be closed when the request ends */
    file_set_process(&pending.file, current_process());
    if (pending.operation == IO_READ)
        reader_note(file, &pending.file, (const void *)bpf_get_current_task());
    bool is_again = bpf_map_lookup_elem(&aio_requests, &key); /* the one before ended unseen */
    if (stat && is_again)
        stat->unseen++;
    if (bpf_map_update_elem(&aio_requests, &key, &pending, BPF_ANY) < 0) {
        if (stat)
            stat->calls_full++;
    } else if (!is_again) {
        note_begun(1);
    }
    return 0;
}

static long aio_request_forget(__u32 i, struct aio_submission *s)
{
    struct aio_key key;
    if (!aio_address(s, s->first + i, &key))
        return 1;
    if (bpf_map_delete_elem(&aio_requests, &key) == 0)
        note_begun(-1);
    return 0;
}

/* io_submit(ring, count, list) begins. */
static __noinline int aio_submit_begin(__u64 ring, __u64 count, __u64 list)
{
    struct aio_submission s = {.list = list};
    aio_read_ring(ring); /* a request that ended may be submitted again */
    s.now = bpf_ktime_get_ns();
    bpf_loop(count < IO_SUBMIT_MAX ? count : IO_SUBMIT_MAX, aio_request_begin, &s, 0);
    return 0;
}

/* It accepted the first of the requests, or none. */
static __noinline int aio_submit_end(__u64 count, __u64 list, __s64 result)
{
    struct aio_submission s = {.list = list, .first = result > 0 ? result : 0};
    if (count > IO_SUBMIT_MAX)
        count = IO_SUBMIT_MAX;
    if (s.first < count)
        bpf_loop(count - s.first, aio_request_forget, &s, 0);
    return 0;
}

/* ---- all of its calls ---- */

static __always_inline void aio_call_begin(const struct syscall_registers *r, __u8 call)
{
    if (call == IO_AIO_SUBMIT)
        aio_submit_begin(REGISTERS_FIRST(r), REGISTERS_SECOND(r), REGISTERS_THIRD(r));
    else if (call == IO_AIO_EVENTS || call == IO_AIO_DESTROY)
        aio_read_ring(REGISTERS_FIRST(r));
}

static __always_inline void aio_call_end(const struct syscall_registers *r, __u8 call, __s64 result)
{
    if (call == IO_AIO_SUBMIT)
        aio_submit_end(REGISTERS_SECOND(r), REGISTERS_THIRD(r), result);
    else if (call == IO_AIO_EVENTS)
        aio_events_end(REGISTERS_FIRST(r), REGISTERS_FOURTH(r), result);
    else if (call == IO_AIO_SETUP && result == 0)
        aio_setup_end(REGISTERS_SECOND(r));
}
