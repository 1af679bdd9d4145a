/* State of request tracing on the BPF side: maps, and how their entries are found and created. Part of request.bpf.c.
 *
 * A connection holds its latest request. Any thread may read it, and any may reply: the socket decides. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "probes/common/cgroup.bpf.h"
#include "probes/common/task.bpf.h"
#include "probes/request/request_table.bpf.h"
#include "probes/request/service_addresses.bpf.h"

#define FILTER_MAX     64
#define PARENTS_MAX    16
#define SERVERS_MAX    4096
#define REPLACEABLE_NS 1000000000ULL
#define UNFINISHED_MAX 256
#define UNFINISHED_NS  1000000000ULL

/* Set before loading. */
const volatile bool has_task_registers =
    true; /* bpf_task_pt_regs and bpf_get_current_task_btf: kernels of 5.15 and later */
const volatile __u32 skip_pid = 0;
const volatile __u32 wanted_pids = 0;
const volatile __u32 wanted_cgroups = 0;
const volatile __u32 wanted_commands = 0;
const volatile __u32 records_a_window = 32;
const volatile bool has_socket_cookies =
    true; /* programs that are given sockets as such (tp_btf), kernels of 5.12 and later */
const volatile __u32 stack_offset = 16384; /* THREAD_SIZE, where bpf_task_pt_regs is missing */
const volatile __u64 ring_bytes = 0;

volatile bool asleep = false; /* set when the source is stopped */

/* What every request touches is in as few lines of cache as can be: at 40,000 requests a second most lines have to be
 * fetched anew each time. */
struct request_connection {
    __u64 number;      /* its own: 1 + index */
    __u64 process;     /* that the request came to: its name */
    __u64 counted_ns;  /* duration as counted in its process's buckets */
    __u64 recorded_ns; /* duration as in the latest record sent */
    char head[12];     /* of the reply */
    __u32 sent_seq;    /* TCP's own count of bytes sent, if all of them were seen here */
    __s32 fd;          /* descriptor of the read */
    __u8 head_bytes;
    __u8 counted_class;
    bool active;  /* a request is there, replied to or not */
    bool replied; /* its reply has begun */
    bool partial; /* not enough bytes yet to recognize HTTP */
    bool dirty;   /* sent since it was last published */
    bool counted;
    bool closing;            /* its connection has ended, and the sender is not back yet (struct request_unfinished) */
    bool unanswered;         /* counted as such with the thread that read it (request_threads.bpf.h) */
    bool shared;             /* that thread was not with this request alone */
    bool is_http2 : 1;       /* http2.bpf.h has its requests; only members common to all of them are set in `r` */
    bool is_client : 1;      /* the process began it, to call another service; is_http2 is set, too */
    bool tls : 1;            /* its socket carries ciphertext (tls_state.bpf.h) */
    __u8 stream;             /* whether its reply is one (request_stream.bpf.h) */
    struct request_record r; /* its last member is the line, */
    char beyond[REQUEST_LINE_BYTES]; /* which ends before this; but the verifier does not see that (append_line) */
} __attribute__((aligned(64)));
_Static_assert(__builtin_offsetof(struct request_connection, r) == 64, "a line of cache");

/* A request whose connection ended before everything sent on it was seen: usually a send is in progress, whose return
 * completes it. */
struct request_unfinished {
    __u64 connection;
    __u64 request; /* start_ns, to verify that it is still the same */
    __u64 socket;
    __u64 ended_ns;
    __u32 end_seq; /* end of the sent bytes, by TCP's count */
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, UNFINISHED_MAX);
    __type(key, __u64); /* PID << 32 | descriptor */
    __type(value, struct request_unfinished);
} unfinished SEC(".maps");

volatile __u64 unfinished_until_ns = 0; /* no unfinished request exists after this time */

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 256 * 1024);
} request_ring SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE); /* for its alignment: values begin on a page; it is never mapped */
    __uint(max_entries, REQUEST_CONNECTIONS_MAX);
    __type(key, __u32);
    __type(value, struct request_connection);
} connections SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
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

/* `v`, in a form whose bound the verifier of every kernel sees. */
static __always_inline __u64 at_most(__u64 v, __u64 most)
{
    asm volatile("" : "+r"(v));
    return v < most ? v : most;
}

/* An address in a form that a global function takes: to the verifier a pointer is no number. */
static __always_inline __u64 number_of(const void *address)
{
    __u64 number = 0;
    bpf_probe_read_kernel(&number, sizeof(number), &address);
    return number;
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

/* The name of the current process. Programs at uprobes call this one, as it is no global function
 * (common/preemption.bpf.h). */
static __always_inline __u64 current_process_inline(__u32 pid)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    return request_process_name(pid, BPF_CORE_READ(task, group_leader, start_boottime));
}

/* The same, faster. Not inlined: the verifier searches the names of all kernel types at each pointer that a trusted one
 * leads to, a millisecond until 6.19, and verifies a global function once. */
__noinline __u64 current_process(__u32 pid)
{
    if (has_task_registers)
        return request_process_name(pid, bpf_get_current_task_btf()->group_leader->start_boottime);
    return current_process_inline(pid);
}

/* The length of a server's queue is inherited by the sockets that it accepts; other sockets of TCP have none. */
static __always_inline bool is_accepted(struct sock *sk)
{
    __u16 family;
    if (has_socket_cookies) {
        family = sk->__sk_common.skc_family;
        return sk->sk_max_ack_backlog && (family == AF_INET || family == AF_INET6);
    }
    family = BPF_CORE_READ(sk, __sk_common.skc_family);
    return BPF_CORE_READ(sk, sk_max_ack_backlog) && (family == AF_INET || family == AF_INET6);
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

/* 1: a process with these low bits of its ID has read a request. */
volatile __u8 servers[SERVERS_MAX];

static __always_inline bool is_server(__u32 pid)
{
    return servers[pid & (SERVERS_MAX - 1)];
}

/* The process that the connection's requests come to, which is the current one. */
static __always_inline void connection_set_process(struct request_connection *c, __u32 pid)
{
    c->process = current_process(pid);
    if (!is_server(pid))
        servers[pid & (SERVERS_MAX - 1)] = 1;
}

static __always_inline struct request_connection *connection_find(__u64 number)
{
    __u32 index = number - 1;
    return bpf_map_lookup_elem(&connections, &index);
}

/* The socket's cookie, which is unique, and 0 for most sockets until it is requested; else its address. */
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

/* Long before connection_of: between two requests on a connection its place leaves the caches, and to wait for it is
 * what costs most. Mostly it is the first of its set. */
static __always_inline void connection_expect(struct sock *sk)
{
    __u64 name = socket_name(sk);
    struct request_connection *c = name ? connection_find(socket_set(name) * 8 + 1) : NULL;
    if (c) {
        (void)*(volatile __u64 *)&c->number;
        (void)*(volatile bool *)&c->active;
    }
}

static __always_inline struct request_connection *connection_of(struct sock *sk)
{
    __u64 name = socket_name(sk);
    __u32 set = socket_set(name), way = table_way8(connection_names[set], name);
    return way == TABLE_NOT_FOUND || !name ? NULL : connection_find(set * 8 + way + 1);
}

/* Whether requests come in on the socket of this connection; NULL: it has none. */
static __always_inline bool is_served(const struct request_connection *c)
{
    return c && !c->is_client;
}

/* Of a request whose reply has begun. */
static __always_inline __u64 last_sent_ns(const struct request_connection *c)
{
    return c->r.start_ns + c->r.duration_ns;
}

/* Idle for so long that its place is better used for another: its later sends are then not seen. */
static __always_inline bool is_replaceable(struct request_connection *c, __u64 now)
{
    return !c->active || c->closing || (c->replied && !c->dirty && now > last_sent_ns(c) + REPLACEABLE_NS);
}

/* Global functions here and in other parts, as publish(), are verified once; inlined, or with arguments that are no
 * numbers, they would be again for each way to get there, which would be most of the agent's start-up time. */
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

/* Makes the connection of the socket at `address`, which is called `name`. Returns its number; 0: it cannot be made. */
__noinline __u32 connection_enter(__u64 address, __u64 name, __u64 pid_tgid)
{
    const struct sock *sk = (const struct sock *)address;
    __u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
    if (family != AF_INET && family != AF_INET6)
        return 0;
    if (!name || !table_claim(name)) /* another thread is at it */
        return 0;
    __u32 set = socket_set(name), index = connection_claim(set);
    if (index == TABLE_NOT_FOUND) {
        table_release(name);
        lose(REQUEST_LOSS_MAP_FULL);
        return 0;
    }
    struct request_connection *c = connection_find(index + 1);
    if (!c)
        return 0;
    c->number = index + 1;
    c->process = 0;
    c->active = c->unanswered = c->is_http2 = c->is_client = c->tls = false;
    c->r.protocol = REQUEST_HTTP1;
    c->stream = 0;
    c->r.socket = name;
    c->r.h.kind = RECORD_REQUEST;
    c->r.h.pid = pid_tgid >> 32;
    c->r.cgroup_id = cgroup_id(cgroup_of((struct task_struct *)bpf_get_current_task()));
    bpf_get_current_comm(c->r.comm, sizeof(c->r.comm));
    c->r.peer_family = family;
    c->r.peer_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
    c->r.local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
    __builtin_memset(c->r.peer_address, 0, sizeof(c->r.peer_address));
    if (family == AF_INET6)
        BPF_CORE_READ_INTO((struct in6_addr *)c->r.peer_address, sk, __sk_common.skc_v6_daddr);
    else
        BPF_CORE_READ_INTO((__be32 *)c->r.peer_address, sk, __sk_common.skc_daddr);
    connection_names[set][table_index(index, 7)] = name;
    return index + 1;
}

static __always_inline struct request_connection *connection_make(struct sock *sk, __u64 pid_tgid)
{
    __u64 name = has_socket_cookies ? bpf_get_socket_cookie(sk) : socket_name(sk);
    __u32 number = connection_enter(number_of(sk), name, pid_tgid);
    if (!number)
        return NULL;
    if (is_accepted(sk))
        service_address_note(number_of(sk));
    return connection_find(number);
}

/* The socket has no connection any more. */
static __always_inline bool connection_unname(struct sock *sk)
{
    __u64 name = socket_name(sk);
    __u32 set = socket_set(name), way = table_way8(connection_names[set], name);
    if (way == TABLE_NOT_FOUND)
        return false;
    connection_names[set][table_index(way, 7)] = 0;
    table_release(name);
    return true;
}

static __noinline struct request_process *process_make(struct request_connection *c)
{
    __u64 name = c->process;
    __u32 set = name & (REQUEST_PROCESSES_MAX / 4 - 1);
    if (!table_claim(REQUEST_CLAIM_NAME | name)) /* another thread is at it */
        return NULL;
    for (__u32 way = 0; way < 4; way++) {
        __u32 index = set * 4 + way;
        if (process_names[set][way] || !table_claim(REQUEST_CLAIM_PROCESS | index))
            continue;
        struct request_process *p = bpf_map_lookup_elem(&processes, &index);
        if (!p)
            return NULL;
        __builtin_memcpy(p->comm, c->r.comm,
                         sizeof(p->comm)); /* the rest is 0: it was cleared when the place was freed */
        process_names[set][way] = name;
        return p;
    }
    table_release(REQUEST_CLAIM_NAME | name);
    return NULL;
}

static __always_inline struct request_process *process_find(struct request_connection *c)
{
    __u64 name = c->process;
    __u32 set = name & (REQUEST_PROCESSES_MAX / 4 - 1), way = table_way4(process_names[set], name);
    if (way == TABLE_NOT_FOUND)
        return process_make(c);
    __u32 index = set * 4 + way;
    return bpf_map_lookup_elem(&processes, &index);
}
