/* Requests served over plain HTTP/1 on sockets, each with its time taken apart: the kernel half.
 *
 * A thread that receives the first bytes of a request works for that connection until it sends the reply and waits for other work;
 * meanwhile sched_switch says when it did not run, and why. Three rungs see sends and receives, the cheapest that attaches is used:
 * the socket tracepoints, fexit of inet_sendmsg and inet_recvmsg, the exit of all system calls. sched_switch, sched_waking and
 * inet_sock_set_state go with each of them. Ends at the ring (request.h); src/sources/request.c takes over. */
#include "request_state.bpf.h"

#include "request_calls.bpf.h"
#include "request_http.bpf.h"
#include "request_publish.bpf.h"
#include "request_waits.bpf.h"

#define IPPROTO_TCP 6
#define SOCK_STREAM 1
#define MSG_PEEK    2

#define TCP_SYN_SENT  2
#define TCP_FIN_WAIT1 4
#define TCP_CLOSE     7
#define TCP_LAST_ACK  9

/* ---- a thread and the request it works on ---- */

/* The request that `t` works on. The address of a socket that was closed may name a new one, which another thread serves: so its
 * owner is asked too. */
static __always_inline struct request_connection *current_of(struct request_thread *t, __u32 tid)
{
    if (!t->connection)
        return NULL;
    struct request_connection *c = connection_find(t->connection);
    if (c && c->active && c->tid == tid && !c->parked_ns)
        return c;
    t->connection = 0;
    return NULL;
}

/* `t` leaves what it worked on: for other work, or to wait for some. */
static __always_inline void turn_away(struct request_thread *t, __u32 tid, __u64 now)
{
    struct request_connection *c = current_of(t, tid);
    if (!c)
        return;
    __u64 key = t->connection;
    t->connection = 0;
    c->parked_ns = now;
    if (c->replied) {
        if (c->dirty)
            publish(key, now, false);
    } else {
        __sync_fetch_and_add(&parked_requests, 1);
    }
}

/* Time since the request began that no wait or sum accounts for: what would come out as CPU time. */
static __always_inline __u64 unexplained(struct request_connection *c, __u64 now)
{
    struct request_record *r = &c->r;
    __u64 known = r->run_queue_ns + r->other_requests_ns + r->unattributed_ns + r->more_waits_ns + c->tail_run_queue_ns +
                  c->tail_other_requests_ns + c->tail_unattributed_ns + c->tail_more_waits_ns;
    for (int i = 0; i < REQUEST_WAITS; i++)
        if (i < r->wait_count)
            known += r->waits[i].duration_ns + c->tail_ns[i];
    return now - r->start_ns > known ? now - r->start_ns - known : 0;
}

/* `t` goes on with a request: time since it was left is what its thread did meanwhile. While the thread slept in its event loop
 * nothing had come in for the request yet; since it woke it was busy with others. */
static __always_inline void resume(struct request_thread *t, struct request_connection *c, __u64 key, __u32 tid,
                                   const struct request_wait_key *cause, __u64 now)
{
    turn_away(t, tid, now);
    t->connection = key;
    if (!c->parked_ns) {
        if (c->tid != tid) { /* taken over while its thread may still do something for it: nothing is known from here on */
            c->tid = tid;
            c->r.flags |= REQUEST_HANDED_OVER;
            c->tail = true;
            c->tail_unattributed_ns += unexplained(c, now);
        }
        return;
    }
    __u64 parked = c->parked_ns;
    c->parked_ns = 0;
    if (!c->replied)
        __sync_fetch_and_add(&parked_requests, -1);
    c->tail = true;
    if (c->tid != tid) {
        c->tid = tid;
        c->r.flags |= REQUEST_HANDED_OVER;
        c->tail_unattributed_ns += now - parked;
        return;
    }
    if (t->idle_end_ns > parked) {
        __u64 idle = t->idle_end_ns - parked;
        __u64 run_queue = t->idle_run_queue_ns < idle ? t->idle_run_queue_ns : idle;
        c->tail_run_queue_ns += run_queue;
        if (idle > run_queue)
            add_wait(c, cause, NULL, idle - run_queue);
        c->tail_other_requests_ns += now - t->idle_end_ns;
    } else {
        c->tail_other_requests_ns += now - parked;
    }
}

static __always_inline void begin(struct request_thread *t, struct request_connection *c, __u64 key, __u64 pid_tgid, __s32 fd,
                                  __u64 now)
{
    struct request_record *r = &c->r;
    r->h.pid = pid_tgid >> 32;
    r->h.tid = c->tid = (__u32)pid_tgid;
    r->id = now ^ pid_tgid << 40;
    r->start_ns = now;
    r->duration_ns = 0;
    r->bytes_in = r->bytes_out = 0;
    r->run_queue_ns = r->other_requests_ns = r->unattributed_ns = r->more_waits_ns = 0;
    r->status = 0;
    r->flags = 0;
    r->wait_count = 0;
    r->line_bytes = 0;
    c->parked_ns = 0;
    c->tail_run_queue_ns = c->tail_other_requests_ns = c->tail_unattributed_ns = c->tail_more_waits_ns = 0;
    c->recorded_ns = c->counted_ns = 0;
    c->fd = fd;
    c->active = true;
    c->replied = c->partial = c->dirty = c->counted = c->tail = c->blocked = c->closing = false;
    c->head_bytes = 0;
    t->connection = key;
}

/* ---- receiving ---- */

/* A reply, or more of one, from a service that some request called. */
static __always_inline void answered(struct request_thread *t, __u64 key, __u32 tid, struct sock *sk, __s32 number, __u64 now)
{
    struct request_call *call = bpf_map_lookup_elem(&calls, &key);
    if (!call)
        return;
    call->answered = true;
    if (call->connection == t->connection)
        return;
    struct request_connection *c = connection_find(call->connection);
    if (!c || !c->active || c->r.start_ns != call->request)
        return;
    struct request_wait_key cause = {.key = key, .sk = sk, .syscall = NR_epoll_wait, .object = REQUEST_OBJECT_SOCKET};
    resume(t, c, call->connection, tid, &cause, now);
}

static __always_inline void take_more(struct request_thread *t, struct request_connection *c, __u64 key, __u32 tid, __u32 bytes,
                                      const struct request_syscall *call, __u64 now)
{
    if (t->connection != key) {
        struct request_wait_key cause = {.syscall = NR_epoll_wait, .object = REQUEST_OBJECT_CLIENT};
        resume(t, c, key, tid, &cause, now);
    }
    c->r.bytes_in += bytes;
    if (c->r.line_bytes < REQUEST_LINE_BYTES) {
        __u32 size;
        const void *buffer = syscall_buffer(call, &size);
        append_line(&c->r, buffer, bytes < size ? bytes : size);
        if (c->partial && c->r.line_bytes >= 8) {
            c->partial = false;
            if (match_method(*(__u64 *)c->r.line, 8) != METHOD_WHOLE)
                c->active = false;
        }
    }
}

static __always_inline void received(struct sock *sk, __s32 bytes, const struct request_syscall *call)
{
    __u64 pid_tgid = bpf_get_current_pid_tgid(), key = (__u64)sk, head = 0;
    __u32 tid = pid_tgid, size, known = 0;
    if (asleep)
        return;
    struct request_thread *t = is_tracked(tid) ? thread_current(tid) : NULL;
    struct request_connection *c = NULL;
    if (t) {
        c = connection_find(key);
        if (c && c->active && !c->replied) {
            take_more(t, c, key, tid, bytes, call, bpf_ktime_get_ns());
            return;
        }
    }
    const void *buffer = syscall_buffer(call, &size);
    if (bytes < size)
        size = bytes;
    known = read_head(buffer, size, &head);
    enum method_match match = known ? match_method(head, known) : METHOD_NONE;
    if (match == METHOD_NONE) {
        if (t)
            answered(t, key, tid, sk, call->number, bpf_ktime_get_ns());
        return;
    }
    if (!t) {
        t = thread_make(pid_tgid);
        if (!t)
            return;
        c = connection_find(key);
    }
    __u64 now = bpf_ktime_get_ns();
    if (t->connection != key)
        turn_away(t, tid, now);
    if (!c)
        c = connection_make(key, sk, pid_tgid);
    else if (c->active && (c->dirty || c->recorded_ns))
        publish(c->key, now, true);
    if (!c)
        return;
    begin(t, c, key, pid_tgid, call->argument[0], now);
    c->partial = match == METHOD_PART;
    c->r.bytes_in = bytes;
    append_line(&c->r, buffer, size);
}

/* ---- sending ---- */

/* A thread that works on a request sends to somebody else: a call to another service. */
static __always_inline void called(struct request_thread *t, __u64 key, __u32 tid, struct sock *sk, bool connecting, __u64 now)
{
    struct request_call *call = bpf_map_lookup_elem(&calls, &key);
    if (call && !connecting && !call->answered) { /* connected for a request, or still sending for it */
        if (call->connection == t->connection) {
            call->sent = true;
            return;
        }
        struct request_connection *c = connection_find(call->connection);
        if (c && c->active && !c->replied && c->r.start_ns == call->request) {
            struct request_wait_key cause = {.key = key, .sk = sk, .syscall = NR_epoll_wait, .object = REQUEST_OBJECT_SOCKET};
            call->sent = true;
            resume(t, c, call->connection, tid, &cause, now);
            return;
        }
    }
    struct request_connection *c = current_of(t, tid);
    if (!c || c->replied)
        return;
    struct request_call fresh = {.connection = t->connection, .request = c->r.start_ns, .sent = !connecting};
    bpf_map_update_elem(&calls, &key, &fresh, BPF_ANY);
}

/* The reply's status line, which may come in pieces: true when the reply has begun, false while it may still. What turns out not to
 * be HTTP is forgotten. */
static __always_inline bool take_head(struct request_connection *c, const struct request_syscall *call, __u32 bytes)
{
    __u32 size;
    const void *buffer = syscall_buffer(call, &size);
    if (bytes < size)
        size = bytes;
    if (!buffer)
        return false;
    if (c->head_bytes == 0 && size >= 16) {
        if (bpf_probe_read_user(c->head, 16, buffer) < 0)
            return false;
        c->head_bytes = 16;
    } else {
        for (int i = 0; i < REPLY_BYTES; i++) {
            __u64 at = at_most(c->head_bytes, 15);
            if (i >= size || at >= REPLY_BYTES)
                break;
            if (bpf_probe_read_user(&c->head[at], 1, buffer + i) < 0)
                break;
            c->head_bytes = at + 1;
        }
    }
    __u64 start = *(__u64 *)c->head;
    if (low_bytes(start ^ REPLY_START, c->head_bytes < 7 ? c->head_bytes : 7)) {
        c->active = false;
        return false;
    }
    if (c->head_bytes < REPLY_BYTES)
        return false;
    __u32 hundreds = c->head[9] - '0', tens = c->head[10] - '0', ones = c->head[11] - '0';
    if (hundreds > 9 || tens > 9 || ones > 9) {
        c->active = false;
        return false;
    }
    __u32 status = hundreds * 100 + tens * 10 + ones;
    if (hundreds == 1 && status != 101) { /* "100 Continue": the reply is still to come */
        c->head_bytes = 0;
        return false;
    }
    c->r.status = status;
    return true;
}

/* Another status line on a connection whose reply was out: the answer to a request that came in together with the last one. */
static __always_inline bool is_next_reply(const struct request_syscall *call, __u32 bytes)
{
    __u32 size;
    __u64 head;
    const void *buffer = syscall_buffer(call, &size);
    if (bytes < size)
        size = bytes;
    return size >= REPLY_BYTES && read_head(buffer, size, &head) == 8 && low_bytes(head ^ REPLY_START, 7) == 0;
}

static __always_inline void begin_pipelined(struct request_thread *t, struct request_connection *c, __u64 key, __u64 pid_tgid,
                                            __u64 now)
{
    __u64 start = c->r.start_ns + c->r.duration_ns;
    publish(c->key, now, true);
    begin(t, c, key, pid_tgid, c->fd, start);
    c->r.flags = REQUEST_PIPELINED;
}

/* A connection ends: so does the request on it, replied to or not. */
static __always_inline void finish(struct request_connection *c, struct sock *sk, __u64 now)
{
    if (!c->active)
        return;
    c->active = false;
    if (c->parked_ns && !c->replied) {
        __sync_fetch_and_add(&parked_requests, -1);
        c->tail = true;
        c->tail_unattributed_ns += now - c->parked_ns;
    }
    if (c->replied) {
        if (c->dirty || c->recorded_ns)
            publish(c->key, now, true);
        return;
    }
    __u32 unseen = BPF_CORE_READ((struct tcp_sock *)sk, write_seq) - c->write_seq - (__u32)c->sent_bytes;
    if (c->partial || !has_version(&c->r))
        return;
    if (unseen > 1) { /* somebody replied, in a way that is not seen here */
        lose(REQUEST_LOSS_UNMATCHED);
        return;
    }
    commit_tail(c);
    c->r.duration_ns = now - c->r.start_ns;
    c->r.flags |= REQUEST_NO_REPLY;
    c->dirty = true;
    publish(c->key, now, true);
}

static __always_inline void forget(struct request_connection *c, struct sock *sk, __u64 now)
{
    __u64 key = c->key;
    finish(c, sk, now);
    bpf_map_delete_elem(&connections, &key);
}

static __always_inline void sent(struct sock *sk, __s32 bytes, const struct request_syscall *call)
{
    __u64 pid_tgid = bpf_get_current_pid_tgid(), key = (__u64)sk;
    __u32 tid = pid_tgid;
    struct request_thread *t = NULL;
    if (asleep)
        return;
    if (is_tracked(tid))
        t = thread_current(tid);
    else if (!*(volatile __u64 *)&parked_requests)
        return;
    struct request_connection *c = connection_find(key);
    if (!c) {
        if (t && bytes > 0)
            called(t, key, tid, sk, false, bpf_ktime_get_ns());
        return;
    }
    if (!c->active)
        return;
    if (!t) {
        t = thread_make(pid_tgid);
        if (!t)
            return;
    }
    __u64 now = bpf_ktime_get_ns();
    if (bytes <= 0) {
        c->blocked = bytes == -11 /* EAGAIN */;
        if (c->closing)
            forget(c, sk, now);
        return;
    }
    if (t->connection != key) {
        struct request_wait_key cause = {.syscall = NR_epoll_wait,
                                         .object = c->blocked ? REQUEST_OBJECT_CLIENT : REQUEST_OBJECT_EVENT_LOOP};
        resume(t, c, key, tid, &cause, now);
    }
    c->blocked = (call->number == NR_write || call->number == NR_sendto) && (__u64)bytes < call->argument[2];
    c->sent_bytes += bytes;
    if (c->replied && is_next_reply(call, bytes))
        begin_pipelined(t, c, key, pid_tgid, now);
    if (!c->replied) {
        if (!take_head(c, call, bytes)) {
            c->r.bytes_out += bytes;
            return;
        }
        c->replied = true;
    }
    commit_tail(c);
    c->r.bytes_out += bytes;
    c->r.duration_ns = now - c->r.start_ns;
    c->dirty = true;
    if (c->closing)
        forget(c, sk, now);
}

/* ---- rung 1: the socket tracepoints (6.3 and later) ---- */

SEC("tp_btf/sock_recv_length")
int BPF_PROG(request_socket_receive, struct sock *sk, int bytes, int flags)
{
    struct request_syscall call;
    if (bytes <= 0 || sk->sk_type != SOCK_STREAM || flags & MSG_PEEK)
        return 0;
    syscall_current(&call);
    received(sk, bytes, &call);
    return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(request_socket_send, struct sock *sk, int bytes, int flags)
{
    struct request_syscall call;
    if (sk->sk_type != SOCK_STREAM)
        return 0;
    syscall_current(&call);
    sent(sk, bytes, &call);
    return 0;
}

/* ---- rung 2: fexit of the functions below ---- */

SEC("fexit/inet_recvmsg")
int BPF_PROG(request_inet_receive, struct socket *socket, struct msghdr *message, unsigned long size, int flags, int bytes)
{
    struct request_syscall call;
    if (bytes <= 0 || flags & MSG_PEEK || BPF_CORE_READ(socket, sk, sk_type) != SOCK_STREAM)
        return 0;
    syscall_current(&call);
    received(BPF_CORE_READ(socket, sk), bytes, &call);
    return 0;
}

SEC("fexit/inet6_recvmsg")
int BPF_PROG(request_inet6_receive, struct socket *socket, struct msghdr *message, unsigned long size, int flags, int bytes)
{
    struct request_syscall call;
    if (bytes <= 0 || flags & MSG_PEEK || BPF_CORE_READ(socket, sk, sk_type) != SOCK_STREAM)
        return 0;
    syscall_current(&call);
    received(BPF_CORE_READ(socket, sk), bytes, &call);
    return 0;
}

static __always_inline int inet_sent(struct socket *socket, int bytes)
{
    struct request_syscall call;
    struct sock *sk = BPF_CORE_READ(socket, sk);
    if (BPF_CORE_READ(sk, sk_type) != SOCK_STREAM)
        return 0;
    syscall_current(&call);
    sent(sk, bytes, &call);
    return 0;
}

SEC("fexit/inet_sendmsg")
int BPF_PROG(request_inet_send, struct socket *socket, struct msghdr *message, unsigned long size, int bytes)
{
    return inet_sent(socket, bytes);
}

SEC("fexit/inet6_sendmsg")
int BPF_PROG(request_inet6_send, struct socket *socket, struct msghdr *message, unsigned long size, int bytes)
{
    return inet_sent(socket, bytes);
}

/* sendfile and splice, until 6.5. */
SEC("fexit/inet_sendpage")
int BPF_PROG(request_inet_sendpage, struct socket *socket, struct page *page, int offset, unsigned long size, int flags,
             long bytes)
{
    return inet_sent(socket, bytes);
}

/* ---- rung 3: the exit of every system call ---- */

static __always_inline struct sock *stream_of(__s32 fd)
{
    struct request_wait_key k = {};
    identify_file(&k, (struct task_struct *)bpf_get_current_task(), fd);
    struct sock *sk = k.sk;
    return sk && BPF_CORE_READ(sk, sk_type) == SOCK_STREAM ? sk : NULL;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(request_syscall_exit, struct pt_regs *registers, long result)
{
    struct request_syscall call;
    struct sock *sk;
    syscall_from_registers((const struct request_registers *)registers, &call);
    if (is_receive(call.number)) {
        if (result <= 0)
            return 0;
        sk = stream_of(call.argument[0]);
        if (sk)
            received(sk, result, &call);
    } else if (is_send(call.number) || call.number == NR_sendfile || call.number == NR_splice) {
        if (!is_tracked(bpf_get_current_pid_tgid()) && !*(volatile __u64 *)&parked_requests)
            return 0;
        sk = stream_of(call.number == NR_splice ? call.argument[2] : call.argument[0]);
        if (sk)
            sent(sk, result, &call);
    }
    return 0;
}

/* ---- with every rung ---- */

static __always_inline bool is_sending(struct request_connection *c)
{
    struct request_syscall call;
    if ((__u32)bpf_get_current_pid_tgid() != c->tid)
        return false;
    syscall_current(&call);
    return (is_send(call.number) || call.number == NR_sendfile) && (__s32)call.argument[0] == c->fd;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(request_connection_state, struct sock *sk, int before, int after)
{
    __u64 key = (__u64)sk;
    if (after == TCP_SYN_SENT) {
        __u64 pid_tgid = bpf_get_current_pid_tgid();
        struct request_thread *t = is_tracked(pid_tgid) ? thread_current(pid_tgid) : NULL;
        if (t && t->connection)
            called(t, key, pid_tgid, sk, true, bpf_ktime_get_ns());
        return 0;
    }
    if (after != TCP_FIN_WAIT1 && after != TCP_LAST_ACK && after != TCP_CLOSE)
        return 0;
    struct request_connection *c = connection_find(key);
    if (!c)
        return 0;
    if (c->active && !c->replied && is_sending(c)) /* over loopback, a reset can come before the send is over that it answers */
        c->closing = true;
    else
        forget(c, sk, bpf_ktime_get_ns());
    return 0;
}

/* Nothing more is to come for now: the thread waits for work. */
static __always_inline bool is_idle(struct request_connection *c, struct request_thread *t, struct task_struct *task)
{
    struct request_syscall call;
    syscall_of_task(task, &call);
    t->wait_fd = -1;
    if (is_waiting_for_work(call.number))
        return true;
    if (is_poll(call.number)) {
        if (call.argument[1] != 1)
            return true;
        __s32 fd = -1;
        if (bpf_probe_read_user(&fd, sizeof(fd), (const void *)call.argument[0]) == 0)
            t->wait_fd = fd;
        return c && c->replied;
    }
    return c ? c->replied && is_receive(call.number) && (__s32)call.argument[0] == c->fd : false;
}

static __always_inline void stop_running(struct request_thread *t, struct task_struct *task, __u32 tid, bool preempted, __u64 now)
{
    t->off_since_ns = now;
    t->woken_ns = 0;
    t->wait_state = task_wait_state(task);
    t->preempted = preempted || t->wait_state == 0;
    if (t->preempted)
        return;
    struct request_connection *c = current_of(t, tid);
    t->idle = is_idle(c, t, task);
    if (t->idle)
        turn_away(t, tid, now);
    else if (c && c->dirty)
        publish(t->connection, now, false);
}

static __always_inline void run_again(struct request_thread *t, struct task_struct *task, __u32 tid, __u64 now)
{
    __u64 since = t->off_since_ns, woken = t->woken_ns;
    if (!since)
        return;
    t->off_since_ns = 0;
    if (woken < since || woken > now)
        woken = now;
    if (t->idle) {
        t->idle = false;
        t->idle_end_ns = now;
        t->idle_run_queue_ns = now - woken;
        return;
    }
    struct request_connection *c = current_of(t, tid);
    if (!c || since < c->r.start_ns)
        return;
    c->tail = true;
    if (t->preempted) {
        c->tail_run_queue_ns += now - since;
        return;
    }
    c->tail_run_queue_ns += now - woken;
    __u8 state = (t->wait_state & 2 ? REQUEST_WAIT_UNINTERRUPTIBLE : 0) |
                 (BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait) ? REQUEST_WAIT_IO : 0);
    add_sleep(c, t, task, state, woken - since);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(request_switch, bool preempted, struct task_struct *before, struct task_struct *after)
{
    __u32 tid_before = before->pid, tid_after = after->pid;
    bool tracked_before = is_tracked(tid_before), tracked_after = is_tracked(tid_after);
    if (!tracked_before && !tracked_after)
        return 0;
    __u64 now = bpf_ktime_get_ns();
    struct request_thread *t;
    if (tracked_before) {
        t = thread_find(before, tid_before);
        if (t)
            stop_running(t, before, tid_before, preempted, now);
    }
    if (tracked_after) {
        t = thread_find(after, tid_after);
        if (t)
            run_again(t, after, tid_after, now);
    }
    return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(request_waking, struct task_struct *task)
{
    __u32 tid = task->pid;
    if (!is_tracked(tid))
        return 0;
    struct request_thread *t = thread_find(task, tid);
    if (t && t->off_since_ns && !t->woken_ns)
        t->woken_ns = bpf_ktime_get_ns();
    return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(request_thread_exit, struct task_struct *task)
{
    __u32 tid = task->pid;
    if (!is_tracked(tid))
        return 0;
    struct request_thread *t = thread_find(task, tid);
    if (!t)
        return 0;
    turn_away(t, tid, bpf_ktime_get_ns());
    if (has_task_storage)
        bpf_task_storage_delete(&thread_storage, task);
    else
        bpf_map_delete_elem(&thread_hash, &tid);
    __sync_fetch_and_add(&tracked[tid & (TRACKED_SLOTS - 1)], -1);
    return 0;
}

char LICENSE[] SEC("license") = "GPL";
