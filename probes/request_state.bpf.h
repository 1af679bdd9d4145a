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
#include "request_table.bpf.h"

#define AF_UNIX  1
#define AF_INET  2
#define AF_INET6 10

#define CALLS_MAX         4096
#define FILTER_MAX        64
#define PARENTS_MAX       16
#define REPLACEABLE_NS    1000000000ULL

/* Set before loading. */
const volatile bool has_task_registers = true; /* bpf_task_pt_regs and bpf_get_current_task_btf: kernels of 5.15 and later */
const volatile __u32 skip_pid = 0;
const volatile __u32 wanted_pids = 0;
const volatile __u32 wanted_cgroups = 0;
const volatile __u32 wanted_commands = 0;
const volatile __u32 records_a_window = 32;
const volatile bool has_socket_cookies = true; /* programs that are given sockets as such (tp_btf), kernels of 5.12 and later */
const volatile __u32 stack_offset = 16384; /* THREAD_SIZE, where bpf_task_pt_regs is missing */
const volatile __u32 walks = REQUEST_WALKS_NONE; /* enum request_walks */
const volatile __u64 ring_bytes = 0;

/* Set at any time. */
volatile bool counts_only = false;
volatile bool asleep = false; /* as if detached: some kernels attach a fexit program only once */

struct request_thread {
    __u64 connection; /* whose request it works on: a number of `connections`; 0: none */
    __u64 off_since_ns; /* 0: it runs, or was never seen to stop */
    __u64 woken_ns;
    __u64 runtime_ns; /* by the scheduler's accounts, when it stopped running */
    __u64 queued_ns;
    __u64 call_argument; /* the first one of the system call that it stopped in */
    __s32 call_number;
    __u64 idle_end_ns; /* when it last came back from waiting for any work, and how long that took from its waking */
    __u64 idle_run_queue_ns;
    __s32 wait_fd; /* what poll() looks at, read while it could be; -1 */
    __u32 wait_state; /* the state that it went to sleep in */
    __u32 stack_place; /* of the wait that it just came back from: 1 + where its user stack is to go; 0: nowhere */
    __s32 long_call;   /* 1 + the system call of its last long wait */
    __u64 stack;       /* its user stack, if that was walked when it stopped */
    __u8 stack_end;
    bool preempted;
    bool throttled; /* it stopped because its cgroup's CPU quota was used up */
    bool idle;
};

/* The stack of a wait that turns out to be the longest of its kind only if the request is not over. */
struct request_late_wait {
    __u64 longest_ns;
    __u64 kernel[REQUEST_KERNEL_FRAMES];
    __u64 stack;
    __u8 kernel_frames, user_end;
    __u8 wait; /* 1 + index in `waits`; 0: none */
};

/* Waits after the latest send are kept apart (tail) until another send shows that the request was not over. */
struct request_connection {
    struct request_record r;
    __u64 number;    /* its own: 1 + index */
    __u64 parked_ns; /* since when no thread works on it; 0: one does */
    __u64 tail_ns[REQUEST_WAITS];
    __u32 tail_count[REQUEST_WAITS];
    __u64 wait_key[REQUEST_WAITS];
    __u64 tail_run_queue_ns;
    __u64 tail_throttled_ns;
    __u64 tail_other_requests_ns;
    __u64 tail_unattributed_ns;
    __u64 tail_more_waits_ns;
    struct request_late_wait late;
    __u64 runtime_start_ns; /* of the thread, when the request began */
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
    bool has_stacks; /* some of its waits were long enough for a user stack */
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
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, REQUEST_CONNECTIONS_MAX);
    __type(key, __u32);
    __type(value, struct request_connection);
} connections SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, CALLS_MAX);
    __type(key, __u64);
    __type(value, struct request_call);
} calls SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, REQUEST_THREADS_MAX);
    __type(key, __u32);
    __type(value, struct request_thread);
} threads SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, REQUEST_PROCESSES_MAX);
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

static __always_inline __u64 current_pid_tgid(void)
{
    if (!has_task_registers)
        return bpf_get_current_pid_tgid();
    struct task_struct *task = bpf_get_current_task_btf();
    return (__u64)(__u32)task->tgid << 32 | (__u32)task->pid;
}

/* CPU time of a thread, by the scheduler's accounts. */
static __always_inline __u64 task_runtime(struct task_struct *task)
{
    return BPF_CORE_READ(task, se.sum_exec_runtime);
}

/* Time that a thread spent runnable without a CPU, by the same accounts: up to when it last got one. */
static __always_inline __u64 task_queued(struct task_struct *task)
{
    if (!bpf_core_field_exists(task->sched_info.run_delay))
        return 0;
    return BPF_CORE_READ(task, sched_info.run_delay);
}

/* Does the thread not run because its cgroup has used up its CPU quota? Newer kernels mark the thread itself, older ones what it is
 * queued on. */
static __always_inline bool task_throttled(struct task_struct *task)
{
    if (bpf_core_field_exists(task->throttled))
        return BPF_CORE_READ(task, throttled);
    if (bpf_core_field_exists(task->se.cfs_rq) && bpf_core_field_exists(((struct cfs_rq *)0)->throttle_count))
        return BPF_CORE_READ(task, se.cfs_rq, throttle_count) > 0;
    return false;
}

static __always_inline __u64 current_runtime(void)
{
    if (has_task_registers)
        return bpf_get_current_task_btf()->se.sum_exec_runtime;
    return task_runtime((struct task_struct *)bpf_get_current_task());
}

/* By its place, in a form whose bound the verifier sees. */
static __always_inline struct request_thread *thread_at(__u32 index)
{
    return bpf_map_lookup_elem(&threads, &index);
}

static __always_inline volatile __u32 *thread_set(__u32 tid)
{
    return thread_names[tid & (REQUEST_THREADS_MAX / 4 - 1)];
}

/* What every thread pays at every switch. */
static __always_inline struct request_thread *thread_find(__u32 tid)
{
    __u32 way = table_way4(thread_set(tid), tid);
    if (way == TABLE_NOT_FOUND || !tid) /* 0: a CPU with nothing to do */
        return NULL;
    return thread_at((tid & (REQUEST_THREADS_MAX / 4 - 1)) * 4 + way);
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
    for (__u32 way = 0; way < 4; way++) {
        __u32 index = (tid & (REQUEST_THREADS_MAX / 4 - 1)) * 4 + way;
        if (thread_set(tid)[way] || !table_claim(REQUEST_CLAIM_THREAD | index))
            continue;
        t = thread_at(index);
        if (!t)
            return NULL;
        __builtin_memset(t, 0, sizeof(*t));
        thread_set(tid)[way] = tid;
        return t;
    }
    lose(REQUEST_LOSS_MAP_FULL);
    return NULL;
}

static __always_inline void thread_drop(__u32 tid)
{
    __u32 set = tid & (REQUEST_THREADS_MAX / 4 - 1), way = table_way4(thread_names[set], tid);
    if (way == TABLE_NOT_FOUND)
        return;
    thread_names[set][table_index(way, 3)] = 0;
    table_release(REQUEST_CLAIM_THREAD | (set * 4 + way));
}

static __always_inline struct request_connection *connection_find(__u64 number)
{
    __u32 index = number - 1;
    return bpf_map_lookup_elem(&connections, &index);
}

/* Its cookie, which no socket has twice, and most have none (0) until somebody asks for it; else its address. */
static __always_inline __u64 socket_name(struct sock *sk)
{
    if (has_socket_cookies)
        return sk->__sk_common.skc_cookie.counter;
    return (__u64)sk & ~(1ULL << 63);
}

static __always_inline __u32 socket_set(__u64 name)
{
    return name * 0x9e3779b97f4a7c15ULL >> 55 & (REQUEST_CONNECTIONS_MAX / 8 - 1);
}

static __always_inline struct request_connection *connection_of(struct sock *sk)
{
    __u64 name = socket_name(sk);
    __u32 set = socket_set(name), way = table_way8(connection_names[set], name);
    return way == TABLE_NOT_FOUND || !name ? NULL : connection_find(set * 8 + way + 1);
}

/* Idle for so long that its place is better used for another: what it may still send is not seen then. */
static __always_inline bool is_replaceable(struct request_connection *c, __u64 now)
{
    return !c->active || (c->replied && !c->dirty && now > c->r.start_ns + c->r.duration_ns + REPLACEABLE_NS);
}

/* Global functions here and in other parts, as publish(), are verified once; inlined, or with arguments that are no numbers, they would
 * be again for each way to get there: most of what starting the agent costs. */
__noinline __u32 connection_claim(__u32 set)
{
    set &= REQUEST_CONNECTIONS_MAX / 8 - 1;
    for (__u32 way = 0; way < 8; way++)
        if (!connection_names[set][way] && table_claim(REQUEST_CLAIM_CONNECTION | (set * 8 + way)))
            return set * 8 + way;
    __u64 now = bpf_ktime_get_ns();
    for (__u32 way = 0; way < 8; way++) {
        struct request_connection *c = connection_find(set * 8 + way + 1);
        if (!c || !is_replaceable(c, now) || !table_release(REQUEST_CLAIM_CONNECTION | (set * 8 + way)))
            continue;
        table_release(connection_names[set][way]);
        connection_names[set][way] = 0;
        if (table_claim(REQUEST_CLAIM_CONNECTION | (set * 8 + way)))
            return set * 8 + way;
    }
    return TABLE_NOT_FOUND;
}

static __noinline struct request_connection *connection_make(struct sock *sk, __u64 pid_tgid)
{
    __u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
    if (family != AF_INET && family != AF_INET6)
        return NULL;
    __u64 name = has_socket_cookies ? bpf_get_socket_cookie(sk) : socket_name(sk);
    if (!name || !table_claim(name)) /* another thread is at it */
        return NULL;
    __u32 set = socket_set(name), index = connection_claim(set);
    if (index == TABLE_NOT_FOUND) {
        table_release(name);
        lose(REQUEST_LOSS_MAP_FULL);
        return NULL;
    }
    struct request_connection *c = connection_find(index + 1);
    if (!c)
        return NULL;
    c->number = index + 1;
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
    connection_names[set][table_index(index, 7)] = name;
    return c;
}

/* The connection has ended. */
static __always_inline void connection_drop(struct request_connection *c, struct sock *sk)
{
    __u64 name = socket_name(sk);
    __u32 set = socket_set(name), way = table_way8(connection_names[set], name);
    c->active = false;
    if (way == TABLE_NOT_FOUND)
        return;
    connection_names[set][table_index(way, 7)] = 0;
    table_release(name);
    table_release(REQUEST_CLAIM_CONNECTION | (set * 8 + way));
}

static __noinline struct request_process *process_make(struct request_record *r)
{
    __u32 pid = r->h.pid, set = pid & (REQUEST_PROCESSES_MAX / 4 - 1);
    if (!table_claim(REQUEST_CLAIM_PID | pid)) /* another thread is at it */
        return NULL;
    for (__u32 way = 0; way < 4; way++) {
        __u32 index = set * 4 + way;
        if (process_names[set][way] || !table_claim(REQUEST_CLAIM_PROCESS | index))
            continue;
        struct request_process *p = bpf_map_lookup_elem(&processes, &index);
        if (!p)
            return NULL;
        __builtin_memcpy(p->comm, r->comm, sizeof(p->comm)); /* all else is 0: whoever gave it back saw to that */
        process_names[set][way] = pid;
        return p;
    }
    table_release(REQUEST_CLAIM_PID | pid);
    return NULL;
}

static __always_inline struct request_process *process_find(struct request_record *r)
{
    __u32 pid = r->h.pid, set = pid & (REQUEST_PROCESSES_MAX / 4 - 1), way = table_way4(process_names[set], pid);
    if (way == TABLE_NOT_FOUND)
        return process_make(r);
    __u32 index = set * 4 + way;
    return bpf_map_lookup_elem(&processes, &index);
}
