/* Sockets whose latest request over HTTP/1 has been answered. A thread that receives on one waits for a client and not
 * for anything that a request needs, so that no stack of this wait is wanted. The program of requests keeps the table;
 * that of waits reads it.
 *
 * A socket may take another one's place: the wait on that one then has a stack like any other. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#define ANSWERED_SOCKETS 4096

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, ANSWERED_SOCKETS);
    __type(key, __u32);
    __type(value, __u64); /* the socket's cookie; 0: none */
} answered_sockets SEC(".maps");

static __always_inline __u64 *answered_place(__u64 cookie)
{
    __u32 at = cookie & (ANSWERED_SOCKETS - 1);
    return bpf_map_lookup_elem(&answered_sockets, &at);
}

static __always_inline void answered_note(__u64 cookie)
{
    __u64 *place = answered_place(cookie);
    if (place)
        *place = cookie;
}

static __always_inline void answered_forget(__u64 cookie)
{
    __u64 *place = answered_place(cookie);
    if (place && *place == cookie)
        *place = 0;
}

static __always_inline bool answered_has(__u64 cookie)
{
    __u64 *place = answered_place(cookie);
    return cookie && place && *place == cookie;
}
