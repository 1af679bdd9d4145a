/* What the kernel half remembers of requests: maps, and how their entries are found and made. Part of request.bpf.c.
 *
 * A connection holds its latest request; a thread holds which connection it works for. Threads that never served a request cost
 * one load of `tracked` in every program. */
#pragma once

#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "request.h"

#define AF_UNIX  1
#define AF_INET  2
#define AF_INET6 10

#ifndef BPF_LOCAL_STORAGE_GET_F_CREATE
#define BPF_LOCAL_STORAGE_GET_F_CREATE (1ULL << 0)
#endif

#define TRACKED_SLOTS     16384
#define CONNECTIONS_MAX   8192
#define CALLS_MAX         4096
#define PROCESSES_MAX     1024
#define FILTER_MAX        64
#define PARENTS_MAX       16

/* Set before loading. */
const volatile bool has_task_storage = true; /* and bpf_task_pt_regs and bpf_get_current_task_btf: kernels of 5.15 and later */
const volatile __u32 skip_pid = 0;
const volatile __u32 wanted_pids = 0;
const volatile __u32 wanted_cgroups = 0;
const volatile __u32 wanted_commands = 0;
const volatile __u32 records_a_window = 32;
const volatile __u32 stack_offset = 16384; /* THREAD_SIZE, where bpf_task_pt_regs is missing */

/* Set at any time. */
volatile bool counts_only = false;
volatile bool asleep = false; /* as if detached: some kernels attach a fexit program only once */

struct request_thread {
    __u64 connection; /* whose request it works on: a key of `connections`; 0: none */
    __u64 off_since_ns;
    __u64 woken_ns;
    __u64 idle_end_ns; /* when it last came back from waiting for any work, and how long that took from its waking */
    __u64 idle_run_queue_ns;
    __s32 wait_fd; /* what poll() looks at, read while it could be; -1 */
    __u32 wait_state; /* the state that it went to sleep in */
    bool preempted;
    bool idle;
};

/* Waits after the latest send are kept apart (tail) until another send shows that the request was not over. */
struct request_connection {
    struct request_record r;
    __u64 key;       /* its own, as a number: a socket's address is none to the verifier */
    __u64 parked_ns; /* since when no thread works on it; 0: one does */
    __u64 tail_ns[REQUEST_WAITS];
    __u32 tail_count[REQUEST_WAITS];
    __u64 wait_key[REQUEST_WAITS];
    __u64 tail_run_queue_ns;
    __u64 tail_other_requests_ns;
    __u64 tail_unattributed_ns;
    __u64 tail_more_waits_ns;
    __u64 counted_ns;  /* duration as counted in its process's buckets */
    __u64 recorded_ns; /* duration as in the latest record sent */
    __u64 sent_bytes;  /* on this connection, as seen here */
    __u32 write_seq;   /* TCP's own count when the connection was first seen */
    __u32 tid;
    __s32 fd;
    __u8 counted_class;
    bool active;  /* a request is there, replied to or not */
    bool replied; /* its reply has begun */
    bool partial; /* not enough bytes yet to tell that it is HTTP */
    bool dirty;   /* sent since it was last published */
    bool counted;
    bool tail;    /* any tail_* is set */
    bool closing; /* closed inside the send that may carry its reply */
    bool blocked; /* the latest send found the buffer full */
    __u8 head_bytes;
    char head[16]; /* of the reply */
};

/* A connection on which a thread called another service for a request. */
struct request_call {
    __u64 connection;
    __u64 request; /* start_ns, to tell that it is still the same */
    bool sent, answered;
};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 256 * 1024);
} request_ring SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, CONNECTIONS_MAX);
    __type(key, __u64);
    __type(value, struct request_connection);
} connections SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, CALLS_MAX);
    __type(key, __u64);
    __type(value, struct request_call);
} calls SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct request_thread);
} thread_storage SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 16384);
    __type(key, __u32);
    __type(value, struct request_thread);
} thread_hash SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, PROCESSES_MAX);
    __type(key, __u32);
    __type(value, struct request_process);
} processes SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, FILTER_MAX);
    __type(key, __u64);
    __type(value, __u8);
} wanted SEC(".maps"); /* PIDs and, with the top bit set, cgroups */

struct wanted_command {
    char comm[16];
};
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, FILTER_MAX);
    __type(key, struct wanted_command);
    __type(value, __u8);
} wanted_comms SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, REQUEST_LOSS_COUNT);
    __type(key, __u32);
    __type(value, __u64);
} request_losses SEC(".maps");

/* Values to start from: too large for the stack. Never written. */
struct request_blanks {
    struct request_connection connection;
    struct request_process process;
};
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct request_blanks);
} blanks SEC(".maps");

__u32 tracked[TRACKED_SLOTS]; /* threads that have a request_thread, by the low bits of their number */
__u64 parked_requests;        /* how many requests no thread works on: somebody else may reply to them */

/* `v`, in a form whose bound the verifier of every kernel sees. */
static __always_inline __u64 at_most(__u64 v, __u64 most)
{
    asm volatile("" : "+r"(v));
    return v < most ? v : most;
}

static __always_inline void lose(__u32 reason)
{
    __u64 *count = bpf_map_lookup_elem(&request_losses, &reason);
    if (count)
        (*count)++;
}

static __always_inline void lose_not(__u32 reason) /* it came after all */
{
    __u64 *count = bpf_map_lookup_elem(&request_losses, &reason);
    if (count)
        (*count)--;
}

static __always_inline bool is_tracked(__u32 tid)
{
    return *(volatile __u32 *)&tracked[tid & (TRACKED_SLOTS - 1)] != 0;
}

/* `task` is used where there is task storage, `tid` where not. */
static __always_inline struct request_thread *thread_find(struct task_struct *task, __u32 tid)
{
    if (has_task_storage)
        return bpf_task_storage_get(&thread_storage, task, NULL, 0);
    return bpf_map_lookup_elem(&thread_hash, &tid);
}

static __always_inline struct request_thread *thread_current(__u32 tid)
{
    if (has_task_storage)
        return bpf_task_storage_get(&thread_storage, bpf_get_current_task_btf(), NULL, 0);
    return bpf_map_lookup_elem(&thread_hash, &tid);
}

static __always_inline bool is_wanted(__u32 pid)
{
    if (skip_pid && pid == skip_pid)
        return false;
    if (wanted_commands) {
        struct wanted_command command = {};
        bpf_get_current_comm(command.comm, sizeof(command.comm));
        if (!bpf_map_lookup_elem(&wanted_comms, &command))
            return false;
    }
    if (wanted_cgroups) {
        __u64 key = bpf_get_current_cgroup_id() | 1ULL << 63;
        if (!bpf_map_lookup_elem(&wanted, &key))
            return false;
    }
    if (!wanted_pids)
        return true;
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    for (int i = 0; i < PARENTS_MAX; i++) {
        __u64 key = (__u32)BPF_CORE_READ(task, tgid);
        if (bpf_map_lookup_elem(&wanted, &key))
            return true;
        if (key <= 1)
            return false;
        task = BPF_CORE_READ(task, real_parent);
    }
    return false;
}

static __always_inline struct request_thread *thread_make(__u64 pid_tgid)
{
    __u32 tid = (__u32)pid_tgid;
    struct request_thread *t;
    if (!is_wanted(pid_tgid >> 32))
        return NULL;
    if (has_task_storage) {
        t = bpf_task_storage_get(&thread_storage, bpf_get_current_task_btf(), NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
    } else {
        struct request_thread blank = {};
        bpf_map_update_elem(&thread_hash, &tid, &blank, BPF_NOEXIST);
        t = bpf_map_lookup_elem(&thread_hash, &tid);
    }
    if (t)
        __sync_fetch_and_add(&tracked[tid & (TRACKED_SLOTS - 1)], 1);
    else
        lose(REQUEST_LOSS_MAP_FULL);
    return t;
}

static __always_inline struct request_connection *connection_find(__u64 key)
{
    return bpf_map_lookup_elem(&connections, &key);
}

static __always_inline struct request_connection *connection_make(__u64 key, struct sock *sk, __u64 pid_tgid)
{
    __u32 zero = 0;
    struct request_blanks *blank = bpf_map_lookup_elem(&blanks, &zero);
    if (!blank)
        return NULL;
    bpf_map_update_elem(&connections, &key, &blank->connection, BPF_ANY);
    struct request_connection *c = connection_find(key);
    if (!c) {
        lose(REQUEST_LOSS_MAP_FULL);
        return NULL;
    }
    c->key = key;
    c->r.h.kind = WIRE_REQUEST;
    c->r.h.pid = pid_tgid >> 32;
    c->r.cgroup_id = bpf_get_current_cgroup_id();
    bpf_get_current_comm(c->r.comm, sizeof(c->r.comm));
    c->write_seq = BPF_CORE_READ((struct tcp_sock *)sk, write_seq);
    c->r.peer_family = BPF_CORE_READ(sk, __sk_common.skc_family);
    c->r.peer_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
    if (c->r.peer_family == AF_INET6)
        BPF_CORE_READ_INTO((struct in6_addr *)c->r.peer_address, sk, __sk_common.skc_v6_daddr);
    else
        BPF_CORE_READ_INTO((__be32 *)c->r.peer_address, sk, __sk_common.skc_daddr);
    return c;
}

static __always_inline struct request_process *process_find(struct request_record *r)
{
    __u32 pid = r->h.pid, zero = 0;
    struct request_process *p = bpf_map_lookup_elem(&processes, &pid);
    if (p)
        return p;
    struct request_blanks *blank = bpf_map_lookup_elem(&blanks, &zero);
    if (!blank)
        return NULL;
    bpf_map_update_elem(&processes, &pid, &blank->process, BPF_NOEXIST);
    p = bpf_map_lookup_elem(&processes, &pid);
    if (p)
        __builtin_memcpy(p->comm, r->comm, sizeof(p->comm));
    return p;
}
