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

#include "cgroup.bpf.h"
#include "request.h"

#define AF_UNIX  1
#define AF_INET  2
#define AF_INET6 10

#ifndef BPF_LOCAL_STORAGE_GET_F_CREATE
#define BPF_LOCAL_STORAGE_GET_F_CREATE (1ULL << 0)
#endif

#define THREAD_SETS       4096
#define THREAD_WAYS       4
#define CONNECTIONS_MAX   4096
#define CALLS_MAX         4096
#define PROCESSES_MAX     1024
#define FILTER_MAX        64
#define PARENTS_MAX       16

/* Set before loading. */
const volatile bool has_task_registers = true; /* bpf_task_pt_regs and bpf_get_current_task_btf: kernels of 5.15 and later */
const volatile __u32 skip_pid = 0;
const volatile __u32 wanted_pids = 0;
const volatile __u32 wanted_cgroups = 0;
const volatile __u32 wanted_commands = 0;
const volatile __u32 records_a_window = 32;
const volatile __u32 stack_offset = 16384; /* THREAD_SIZE, where bpf_task_pt_regs is missing */
const volatile bool has_socket_storage = true; /* programs that are given sockets as such (tp_btf), kernels of 5.11 and later */

/* Set at any time. */
volatile bool counts_only = false;
volatile bool asleep = false; /* as if detached: some kernels attach a fexit program only once */

struct request_thread {
    __u64 connection; /* whose request it works on: a number of `connections`; 0: none */
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
    __u64 number;    /* its own: 1 + index */
    __u64 socket;    /* address, to tell that it is still the same */
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
    __u8 next_bytes;
    char head[16]; /* of the reply */
    char next[REQUEST_LINE_BYTES]; /* what came in after the reply: the next request's line, if it is one */
};

/* What is kept with a socket itself, where that can be done; else by its address. */
struct request_socket {
    __u64 connection;
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

/* Programs compile a look into an array to a few instructions: this is what every event needs. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, CONNECTIONS_MAX);
    __type(key, __u32);
    __type(value, struct request_connection);
} connections SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_STACK);
    __uint(max_entries, CONNECTIONS_MAX);
    __uint(key_size, 0);
    __type(value, __u32);
} free_connections SEC(".maps"); /* their indices, filled when loaded */

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct request_socket);
} socket_storage SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, CONNECTIONS_MAX);
    __type(key, __u64);
    __type(value, struct request_socket);
} socket_hash SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, CALLS_MAX);
    __type(key, __u64);
    __type(value, struct request_call);
} calls SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, THREAD_SETS * THREAD_WAYS);
    __type(key, __u32);
    __type(value, struct request_thread);
} threads SEC(".maps");

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
} wanted SEC(".maps"); /* PIDs */

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, FILTER_MAX);
    __type(key, __u64);
    __type(value, __u8);
} wanted_cgroup_ids SEC(".maps");

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

/* To start from: too large for the stack. Never written. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct request_process);
} blank_process SEC(".maps");

__u32 tracked[THREAD_SETS][THREAD_WAYS]; /* whose each of `threads` is, in sets by the low bits of their number; 0: nobody's */
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

static __always_inline volatile __u32 *thread_set(__u32 tid)
{
    return tracked[tid & (THREAD_SETS - 1)];
}

/* What every thread pays at every switch: four loads out of one line of cache. */
static __always_inline bool is_tracked(__u32 tid)
{
    volatile __u32 *set = thread_set(tid);
    return tid && (set[0] == tid || set[1] == tid || set[2] == tid || set[3] == tid); /* 0: a CPU with nothing to do */
}

static __always_inline struct request_thread *thread_at(__u32 tid, __u32 way)
{
    __u32 index = (tid & (THREAD_SETS - 1)) * THREAD_WAYS + way;
    return bpf_map_lookup_elem(&threads, &index);
}

static __always_inline struct request_thread *thread_find(__u32 tid)
{
    volatile __u32 *set = thread_set(tid);
    __u32 way = set[0] == tid ? 0 : set[1] == tid ? 1 : set[2] == tid ? 2 : set[3] == tid ? 3 : THREAD_WAYS;
    return tid && way < THREAD_WAYS ? thread_at(tid, way) : NULL;
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
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    if (wanted_cgroups && !cgroup_wanted(cgroup_of(task), &wanted_cgroup_ids))
        return false;
    if (!wanted_pids)
        return true;
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
    volatile __u32 *set = thread_set(tid);
    __u32 way = !set[0] ? 0 : !set[1] ? 1 : !set[2] ? 2 : !set[3] ? 3 : THREAD_WAYS;
    if (way == THREAD_WAYS) {
        lose(REQUEST_LOSS_MAP_FULL);
        return NULL;
    }
    t = thread_at(tid, way);
    if (!t)
        return NULL;
    __builtin_memset(t, 0, sizeof(*t));
    set[way] = tid; /* two may take the same place at the same time: then one is not known, and begins anew */
    return t;
}

static __always_inline void thread_drop(__u32 tid)
{
    volatile __u32 *set = thread_set(tid);
    for (int way = 0; way < THREAD_WAYS; way++)
        if (set[way] == tid)
            set[way] = 0;
}

static __always_inline struct request_connection *connection_find(__u64 number)
{
    __u32 index = number - 1;
    return bpf_map_lookup_elem(&connections, &index);
}

static __always_inline struct request_socket *socket_find(struct sock *sk)
{
    __u64 key = (__u64)sk;
    if (has_socket_storage)
        return bpf_sk_storage_get(&socket_storage, sk, NULL, 0);
    return bpf_map_lookup_elem(&socket_hash, &key);
}

static __always_inline struct request_socket *socket_make(struct sock *sk)
{
    if (has_socket_storage)
        return bpf_sk_storage_get(&socket_storage, sk, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
    struct request_socket blank = {};
    __u64 key = (__u64)sk;
    bpf_map_update_elem(&socket_hash, &key, &blank, BPF_NOEXIST);
    return bpf_map_lookup_elem(&socket_hash, &key);
}

static __always_inline struct request_connection *connection_of(struct sock *sk)
{
    struct request_socket *s = socket_find(sk);
    struct request_connection *c = s ? connection_find(s->connection) : NULL;
    return c && c->socket == (__u64)sk ? c : NULL;
}

static __always_inline struct request_connection *connection_make(struct sock *sk, __u64 pid_tgid)
{
    __u32 index;
    __u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
    if (family != AF_INET && family != AF_INET6)
        return NULL;
    struct request_socket *s = socket_make(sk);
    if (!s || bpf_map_pop_elem(&free_connections, &index) < 0) {
        lose(REQUEST_LOSS_MAP_FULL);
        return NULL;
    }
    struct request_connection *c = connection_find(index + 1);
    if (!c)
        return NULL;
    s->connection = index + 1;
    c->number = index + 1;
    c->socket = (__u64)sk;
    c->active = false;
    c->sent_bytes = 0;
    c->r.h.kind = WIRE_REQUEST;
    c->r.h.pid = pid_tgid >> 32;
    c->r.cgroup_id = cgroup_id(cgroup_of((struct task_struct *)bpf_get_current_task()));
    bpf_get_current_comm(c->r.comm, sizeof(c->r.comm));
    c->write_seq = BPF_CORE_READ((struct tcp_sock *)sk, write_seq);
    c->r.peer_family = family;
    c->r.peer_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
    __builtin_memset(c->r.peer_address, 0, sizeof(c->r.peer_address));
    if (family == AF_INET6)
        BPF_CORE_READ_INTO((struct in6_addr *)c->r.peer_address, sk, __sk_common.skc_v6_daddr);
    else
        BPF_CORE_READ_INTO((__be32 *)c->r.peer_address, sk, __sk_common.skc_daddr);
    return c;
}

/* The connection has ended. */
static __always_inline void connection_drop(struct request_connection *c, struct sock *sk)
{
    __u32 index = c->number - 1;
    __u64 key = (__u64)sk;
    if (c->socket != key)
        return;
    c->socket = 0;
    c->active = false;
    if (!has_socket_storage)
        bpf_map_delete_elem(&socket_hash, &key);
    bpf_map_push_elem(&free_connections, &index, BPF_ANY);
}

static __always_inline struct request_process *process_find(struct request_record *r)
{
    __u32 pid = r->h.pid, zero = 0;
    struct request_process *p = bpf_map_lookup_elem(&processes, &pid);
    if (p)
        return p;
    struct request_process *blank = bpf_map_lookup_elem(&blank_process, &zero);
    if (!blank)
        return NULL;
    bpf_map_update_elem(&processes, &pid, blank, BPF_NOEXIST);
    p = bpf_map_lookup_elem(&processes, &pid);
    if (p)
        __builtin_memcpy(p->comm, r->comm, sizeof(p->comm));
    return p;
}
