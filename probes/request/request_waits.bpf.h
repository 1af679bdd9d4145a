/* What a thread waited for while it worked on a request. Part of request.bpf.c.
 *
 * All but the system call is read when the thread comes back: then it is known how long it took, the kernel stack still
 * lies where it lay, and only a wait that was long enough to matter pays for it. */
#pragma once

#include "probes/request/request_calls.bpf.h"

#define STACK_MIN_NS      20000
#define USER_STACK_MIN_NS 100000

struct request_wait_key {
    __u64 key; /* distinguishes objects: address of a socket, inode or futex */
    struct inode *inode;
    struct dentry *dentry;
    struct sock *sk;
    __s32 syscall;
    __u8 object;
    __u8 state;
};

static __always_inline void read_peer(struct request_wait *w, struct sock *sk)
{
    __u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
    w->peer_family = family;
    w->peer_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
    if (family == AF_INET6)
        BPF_CORE_READ_INTO((struct in6_addr *)w->peer_address, sk, __sk_common.skc_v6_daddr);
    else
        BPF_CORE_READ_INTO((__be32 *)w->peer_address, sk, __sk_common.skc_daddr);
}

static __always_inline void identify_socket(struct request_wait_key *k, struct file *file)
{
    struct socket *socket = BPF_CORE_READ(file, private_data);
    struct sock *sk = BPF_CORE_READ(socket, sk);
    __u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
    k->sk = sk;
    k->key = (__u64)sk;
    k->object = family == AF_UNIX                         ? REQUEST_OBJECT_UNIX
                : family == AF_INET || family == AF_INET6 ? REQUEST_OBJECT_SOCKET
                                                          : REQUEST_OBJECT_OTHER;
}

static __always_inline void identify_file(struct request_wait_key *k, struct task_struct *task, __s32 fd)
{
    struct file *file = task_file(task, fd);
    k->object = REQUEST_OBJECT_OTHER;
    if (!file)
        return;
    struct inode *inode = BPF_CORE_READ(file, f_inode);
    k->inode = inode;
    k->dentry = BPF_CORE_READ(file, f_path.dentry);
    k->key = (__u64)inode;
    switch (BPF_CORE_READ(inode, i_mode) & S_IFMT) {
    case S_IFSOCK:
        identify_socket(k, file);
        break;
    case S_IFREG:
    case S_IFDIR:
    case S_IFBLK:
        k->object = REQUEST_OBJECT_FILE;
        break;
    case S_IFIFO:
        k->object = REQUEST_OBJECT_PIPE;
        break;
    }
}

/* Of waits that are alike, the longest one's stacks are kept; `task` is NULL when they cannot be had. What comes after
 * the reply may turn out to be no part of the request: until more is sent it must not displace what is (of several
 * kinds, the longest is kept). Returns where the user stack is to go, or -1: nowhere. */
static __always_inline __s32 keep_longest(struct request_connection *c, __u32 at, struct task_struct *task, __u64 ns)
{
    struct request_wait *w = &c->r.waits[at & (REQUEST_WAITS - 1)];
    struct request_late_wait *late = &c->late;
    if (ns <= w->longest_ns)
        return -1;
    long bytes = 0;
    if (c->replied && w->longest_ns) {
        if (c->late_wait && ns <= late->longest_ns)
            return -1;
        c->late_wait = at + 1;
        late->longest_ns = ns;
        late->stack = 0;
        late->user_end = REQUEST_STACK_NONE;
        if (task && ns >= STACK_MIN_NS)
            bytes = bpf_get_task_stack(task, late->kernel, sizeof(late->kernel), 0);
        late->kernel_frames = bytes > 0 ? bytes / 8 : 0;
        return REQUEST_WAITS;
    }
    w->longest_ns = ns;
    w->stack = 0;
    w->user_end = REQUEST_STACK_NONE;
    if (task && ns >= STACK_MIN_NS)
        bytes = bpf_get_task_stack(task, w->kernel, sizeof(w->kernel), 0);
    w->kernel_frames = bytes > 0 ? bytes / 8 : 0;
    return at;
}

static __always_inline void set_stack(struct request_connection *c, __u32 place, __u64 stack, __u8 end)
{
    struct request_wait *w = &c->r.waits[place & (REQUEST_WAITS - 1)];
    c->has_stacks = true;
    if (place < REQUEST_WAITS) {
        w->stack = stack;
        w->user_end = end;
    } else {
        c->late.stack = stack;
        c->late.user_end = end;
    }
}

static __always_inline void commit_late(struct request_connection *c)
{
    struct request_late_wait *late = &c->late;
    struct request_wait *w = &c->r.waits[c->late_wait - 1 & (REQUEST_WAITS - 1)];
    if (c->late_wait && late->longest_ns > w->longest_ns) {
        w->longest_ns = late->longest_ns;
        w->stack = late->stack;
        w->user_end = late->user_end;
        w->kernel_frames = late->kernel_frames;
        __builtin_memcpy(w->kernel, late->kernel, sizeof(w->kernel));
    }
    c->late_wait = 0;
}

/* The index of the wait that is alike, or of the first that is free; REQUEST_WAITS: none is. A global function: what it
 * returns may be any number to the verifier, so what is done with it is verified once and not for each. */
__noinline __u32 wait_find(__u64 number, __s32 syscall, __u32 object, __u32 state, __u64 key)
{
    struct request_connection *c = connection_find(number);
    if (!c)
        return REQUEST_WAITS;
    for (__u32 at = 0; at < REQUEST_WAITS; at++) {
        struct request_wait *w = &c->r.waits[at];
        if (at >= c->r.wait_count ||
            (w->syscall == syscall && w->object == object && w->state == state && c->wait_key[at] == key))
            return at;
    }
    return REQUEST_WAITS;
}

/* As keep_longest. */
static __always_inline __s32 add_wait(struct request_connection *c, const struct request_wait_key *k,
                                      struct task_struct *task, __u64 ns)
{
    __u32 found = wait_find(c->number, k->syscall, k->object, k->state, number_of((void *)k->key));
    c->tail = true;
    if (found >= REQUEST_WAITS) {
        c->tail_more_waits_ns += ns;
        return -1;
    }
    __u64 at = table_index(found, REQUEST_WAITS - 1);
    struct request_wait *w = &c->r.waits[at];
    if (at >= c->r.wait_count) {
        c->r.wait_count = at + 1;
        w->duration_ns = w->longest_ns = 0;
        w->syscall = k->syscall;
        w->count = 0;
        w->object = k->object;
        w->state = k->state;
        w->kernel_frames = 0;
        w->user_frames = 0;
        w->user_end = REQUEST_STACK_NONE;
        w->stack = 0;
        w->peer_family = 0;
        w->file_system[0] = w->file_name[0] = 0;
        c->wait_key[at] = k->key;
        c->tail_ns[at] = 0;
        c->tail_count[at] = 0;
        if (k->sk)
            read_peer(w, k->sk);
        if (k->object == REQUEST_OBJECT_FILE) {
            struct inode *inode = k->inode;
            struct dentry *dentry = k->dentry;
            bpf_probe_read_kernel_str(w->file_system, sizeof(w->file_system), BPF_CORE_READ(inode, i_sb, s_type, name));
            bpf_probe_read_kernel_str(w->file_name, sizeof(w->file_name), BPF_CORE_READ(dentry, d_name.name));
        }
    }
    c->tail_ns[at] += ns;
    c->tail_count[at]++;
    return keep_longest(c, at, task, ns);
}

/* How it was seen that a thread is back on a CPU. */
enum absence_end {
    ABSENCE_GUESSED,  /* not at the time: its stack is another one by now */
    ABSENCE_SWITCHED, /* at the switch to it */
    ABSENCE_RETURNED, /* when it went on: the scheduler and we lie on its kernel stack */
};

/* `task` slept for `ns` in the middle of a request. */
static __always_inline void add_sleep(struct request_connection *c, struct request_thread *t, struct task_struct *task,
                                      __u8 state, enum absence_end end, __u64 ns)
{
    struct request_wait_key k = {.state = state};
    __s32 number = t->call_number, fd = is_poll(number)            ? t->wait_fd
                                        : is_on_descriptor(number) ? (__s32)t->call_argument
                                                                   : -1;
    k.syscall = number < 0 ? -1 : number;
    if (state & REQUEST_WAIT_STOPPED) {
        k.syscall = -1;
    } else if (fd >= 0) {
        if (fd == c->fd)
            k.object = REQUEST_OBJECT_CLIENT;
        else
            identify_file(&k, task, fd);
    } else if (number == NR_futex) {
        k.key = t->call_argument;
    }
    __s32 place = add_wait(c, &k, end == ABSENCE_SWITCHED ? task : NULL, ns);
    if (ns < USER_STACK_MIN_NS)
        return;
    t->long_call = number + 1;
    if (place < 0)
        return;
    if (walks == REQUEST_WALKS_AT_LEAVING) /* every leaving is traced, so it is this wait's however its end was seen */
        set_stack(c, place, t->stack, t->stack_end);
    else if (walks == REQUEST_WALKS_AT_RETURN && end != ABSENCE_GUESSED)
        t->stack_place = place + 1;
}

static __always_inline void clear_tail(struct request_connection *c)
{
    c->tail_run_queue_ns = c->tail_throttled_ns = c->tail_other_requests_ns = c->tail_unattributed_ns =
        c->tail_more_waits_ns = 0;
    c->tail = false;
}

/* More was sent: what came before it belongs to the request. */
static __always_inline void commit_tail(struct request_connection *c)
{
    if (!c->tail)
        return;
    c->r.run_queue_ns += c->tail_run_queue_ns;
    c->r.throttled_ns += c->tail_throttled_ns;
    c->r.other_requests_ns += c->tail_other_requests_ns;
    c->r.unattributed_ns += c->tail_unattributed_ns;
    c->r.more_waits_ns += c->tail_more_waits_ns;
    clear_tail(c);
    for (int i = 0; i < REQUEST_WAITS; i++) {
        if (i >= c->r.wait_count)
            break;
        c->r.waits[i].duration_ns += c->tail_ns[i];
        c->r.waits[i].count += c->tail_count[i];
        c->tail_ns[i] = 0;
        c->tail_count[i] = 0;
    }
    commit_late(c);
}
