/* The caller's trace, by the header traceparent (W3C Trace Context): where spans are exported, the programs search for
 * it in the first bytes of each request, and hand its value, and no other header, to user space. Part of request.bpf.c.
 *
 * The search costs about 1 ns for 4 bytes of header. A header beyond CALLER_BYTES, or in a later read than the request
 * line, is not found. */
#pragma once

#include "probes/request/request_state.bpf.h"

#define CALLER_BYTES 2048
#define CALLER_ROOM  128 /* the longest read at any position */
#define NEWLINES     0x0a0a0a0a0a0a0a0aULL
#define ONES         0x0101010101010101ULL
#define LOWER_CASE   0x2020202020202020ULL
#define NAME_BYTES   12                    /* "traceparent:" */
#define NAME_START   0x7261706563617274ULL /* "tracepar" */
#define NAME_END     0x3a746e65U           /* "ent:" */

const volatile bool wants_callers = false; /* set before loading */

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, char[CALLER_BYTES + CALLER_ROOM]);
} caller_bytes SEC(".maps");

/* By connection: of its latest request. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, REQUEST_CONNECTIONS_MAX);
    __type(key, __u32);
    __type(value, struct request_caller_record);
} callers SEC(".maps");

/* The offset behind the first newline of the eight bytes; 0: they have none. */
static __always_inline __u64 behind_newline(__u64 bytes)
{
    __u64 different = bytes ^ NEWLINES, found = (different - ONES) & ~different & (ONES << 7), lowest = found & -found;
    if (!found)
        return 0;
    return 1 + ((0x80 - lowest) >> 63) + ((0x8000 - lowest) >> 63) + ((0x800000 - lowest) >> 63) +
           ((0x80000000ULL - lowest) >> 63) + ((0x8000000000ULL - lowest) >> 63) +
           ((0x800000000000ULL - lowest) >> 63) + ((0x80000000000000ULL - lowest) >> 63);
}

/* Whether a header line with this name begins here. Its value begins behind the colon. */
static __always_inline bool is_traceparent(const char *line)
{
    __u64 start = *(const __u64 *)line;
    __u32 end = *(const __u32 *)(line + 8);
    return (start | LOWER_CASE) == NAME_START && (end | (__u32)LOWER_CASE) == NAME_END;
}

/* Returns the offset of the header's value within the first `size` bytes; 0: the header is not there. */
static __always_inline __u32 find_value(const char *bytes, __u32 size)
{
    asm volatile("" : "+r"(size)); /* the verifiers of old kernels need the loop's own bound, too */
    for (__u32 i = 0; i < CALLER_BYTES; i += 8) {
        if (i + NAME_BYTES + REQUEST_TRACEPARENT_BYTES > size)
            return 0;
        __u64 behind = behind_newline(*(const __u64 *)(bytes + i));
        if (behind && is_traceparent(bytes + i + (behind & 15)))
            return i + behind + NAME_BYTES;
    }
    return 0;
}

/* Notes the caller of the request that has just begun. A global function, verified once; it takes numbers. */
__noinline int note_caller(__u64 number, __u64 buffer, __u32 size)
{
    const __u32 zero = 0;
    __u32 index = number - 1;
    char *bytes = bpf_map_lookup_elem(&caller_bytes, &zero);
    struct request_caller_record *caller = bpf_map_lookup_elem(&callers, &index);
    struct request_connection *c = connection_find(number);
    if (!bytes || !caller || !c)
        return 0;
    caller->id = 0;
    __u64 n = at_most(size, CALLER_BYTES);
    if (bpf_probe_read_user(bytes, n, (const void *)buffer) < 0)
        return 0;
    __u64 at = find_value(bytes, n);
    if (!at)
        return 0;
    at = at_most(at, CALLER_BYTES);
    if (bytes[at] == ' ')
        at++;
    __builtin_memcpy(caller->traceparent, bytes + at, REQUEST_TRACEPARENT_BYTES);
    caller->h.kind = RECORD_REQUEST_CALLER;
    caller->h.size_bytes = sizeof(*caller);
    caller->h.pid = c->r.h.pid;
    caller->h.tid = c->r.h.tid;
    caller->id = c->r.id;
    return 0;
}

/* Goes ahead of the record of the request. */
static __always_inline void send_caller(struct request_connection *c, __u64 wakeup)
{
    __u32 index = c->number - 1;
    struct request_caller_record *caller = bpf_map_lookup_elem(&callers, &index);
    if (!caller || caller->id != c->r.id)
        return;
    caller->h.time_ns = c->r.h.time_ns;
    if (bpf_ringbuf_output(&request_ring, caller, sizeof(*caller), wakeup) < 0)
        lose(REQUEST_LOSS_RING_FULL);
}
