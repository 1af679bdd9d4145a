/* BPF side of request tracing: requests served over HTTP/1, HTTP/2 and TLS on sockets.
 *
 * A request begins when a thread receives its first bytes. All bytes that any thread then sends on the socket are its
 * reply. Three methods see sends and receives; the cheapest that attaches is used: the socket tracepoints, fexit of
 * inet_sendmsg and inet_recvmsg, the exit of all system calls. inet_sock_set_state is used with each of them. Records
 * go to the ring (request.h) and on to src/sources/request/request.c. The flight recorder, and not this program,
 * records why requests waited. */
#include "probes/common/vmlinux.h"

#include "probes/common/run_timer.bpf.h"
#include "probes/request/request_arrivals.bpf.h"
#include "probes/request/request_receive.bpf.h"
#include "probes/request/request_recorder.bpf.h"
#include "probes/request/service_calls.bpf.h"
#include "probes/request/tls_calls.bpf.h"

#define EAGAIN        11
#define MSG_PEEK      2

#define TCP_SYN_SENT  2
#define TCP_FIN_WAIT1 4
#define TCP_CLOSE     7
#define TCP_LAST_ACK  9

/* ---- method 1: the socket tracepoints (6.3 and later) ---- */

SEC("tp_btf/sock_recv_length")
int BPF_PROG(request_socket_receive, struct sock *sk, int bytes, int flags)
{
    __u16 family = sk->__sk_common.skc_family;
    if (bytes == -EAGAIN && has_recorder && !asleep)
        record_program(bpf_ktime_get_ns(), RECORDER_AT_SCHEDULER, 0);
    if (bytes < 0 || flags & MSG_PEEK)
        return 0;
    connection_expect(sk);
    struct request_connection *c = connection_of(sk);
    __u64 arrival_ns = asleep ? 0 : arrival_of_read(sk, bytes),
          now = record_socket(sk, RECORDER_RECEIVE, bytes, is_served(c), RECORDER_NO_SYSCALL);
    if (!c)
        service_call_received(sk, bytes, now);
    if (bytes == 0)
        return 0;
    if (sk->sk_type != SOCK_STREAM)
        return 0;
    if (family != AF_INET && family != AF_INET6)
        return 0;
    __u64 start_ns = timer_start(REQUEST_TIMER_RECEIVE);
    received(sk, c, bytes, arrival_ns, NULL, now);
    timer_stop(REQUEST_TIMER_RECEIVE, start_ns);
    return 0;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(request_ready, struct sock *sk)
{
    if (asleep)
        return 0;
    __u64 start_ns = timer_start(REQUEST_TIMER_READY), now = bpf_ktime_get_ns();
    const struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
    if (has_recorder)
        record_ready(sk, tcp, now);
    if (tcp)
        arrived(sk, tcp, now);
    timer_stop(REQUEST_TIMER_READY, start_ns);
    return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(request_retransmission, struct sock *sk)
{
    if (has_recorder && !asleep)
        record_retransmission(sk);
    return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(request_socket_send, struct sock *sk, int bytes, int flags)
{
    connection_expect(sk);
    struct request_connection *c = connection_of(sk);
    __u64 now = bytes > 0 ? record_send(sk, bytes, &c) : 0;
    if (sk->sk_type != SOCK_STREAM)
        return 0;
    __u64 start_ns = timer_start(REQUEST_TIMER_SEND);
    sent(sk, c, bytes, NULL, now);
    timer_stop(REQUEST_TIMER_SEND, start_ns);
    return 0;
}

/* ---- method 2: fexit of the functions below ---- */

static __always_inline int inet_received(struct socket *socket, int flags, int bytes)
{
    struct sock *sk = BPF_CORE_READ(socket, sk);
    if (bytes < 0 || flags & MSG_PEEK)
        return 0;
    struct request_connection *c = connection_of(sk);
    __u64 now = record_socket(sk, RECORDER_RECEIVE, bytes, is_served(c), RECORDER_NO_SYSCALL);
    if (!c)
        service_call_received(sk, bytes, now);
    if (bytes == 0)
        return 0;
    if (BPF_CORE_READ(sk, sk_type) != SOCK_STREAM)
        return 0;
    __u64 start_ns = timer_start(REQUEST_TIMER_RECEIVE);
    received(sk, c, bytes, 0, NULL, now);
    timer_stop(REQUEST_TIMER_RECEIVE, start_ns);
    return 0;
}

SEC("fexit/inet_recvmsg")
int BPF_PROG(request_inet_receive, struct socket *socket, struct msghdr *message, unsigned long size, int flags,
             int bytes)
{
    return inet_received(socket, flags, bytes);
}

SEC("fexit/inet6_recvmsg")
int BPF_PROG(request_inet6_receive, struct socket *socket, struct msghdr *message, unsigned long size, int flags,
             int bytes)
{
    return inet_received(socket, flags, bytes);
}

static __always_inline int inet_sent(struct socket *socket, int bytes)
{
    struct sock *sk = BPF_CORE_READ(socket, sk);
    struct request_connection *c = connection_of(sk);
    __u64 now = bytes > 0 ? record_send(sk, bytes, &c) : 0;
    if (BPF_CORE_READ(sk, sk_type) != SOCK_STREAM)
        return 0;
    __u64 start_ns = timer_start(REQUEST_TIMER_SEND);
    sent(sk, c, bytes, NULL, now);
    timer_stop(REQUEST_TIMER_SEND, start_ns);
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

/* ---- method 3: the exit of every system call ---- */

/* The stream on this descriptor, or NULL. `bytes` were sent on it or received, as `kind` says. `*ret_now`: as of
 * record_socket. */
static __always_inline struct sock *stream_of(__s32 fd, __u8 kind, __s32 bytes, __u64 *ret_now)
{
    *ret_now = 0;
    struct sock *sk = file_socket(task_file((struct task_struct *)bpf_get_current_task(), fd));
    if (sk && bytes > 0) {
        struct request_connection *c = connection_of(sk);
        *ret_now = kind == RECORDER_SEND
                       ? record_send(sk, bytes, &c)
                       : record_socket(sk, RECORDER_RECEIVE, bytes, is_served(c), RECORDER_NO_SYSCALL);
        if (kind == RECORDER_RECEIVE && !c)
            service_call_received(sk, bytes, *ret_now);
    }
    return sk && BPF_CORE_READ(sk, sk_type) == SOCK_STREAM ? sk : NULL;
}

static __always_inline bool is_peek(const struct pt_regs *registers, const struct request_syscall *call)
{
    return (call->number == NR_recvmsg && call->argument[2] & MSG_PEEK) ||
           (call->number == NR_recvfrom && REGISTERS_FOURTH((const struct syscall_registers *)registers) & MSG_PEEK);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(request_syscall_exit, struct pt_regs *registers, long result)
{
    struct request_syscall call;
    struct sock *sk;
    __u64 now;
    syscall_from_registers((const struct syscall_registers *)registers, &call);
    if (is_receive(call.number)) {
        if (result <= 0 || is_peek(registers, &call)) /* the bytes are read again */
            return 0;
        __u64 start_ns = timer_start(REQUEST_TIMER_RECEIVE);
        sk = stream_of(call.argument[0], RECORDER_RECEIVE, result, &now);
        if (sk)
            received(sk, connection_of(sk), result, 0, &call, now);
        timer_stop(REQUEST_TIMER_RECEIVE, start_ns);
    } else if (is_send(call.number) || call.number == NR_sendfile || call.number == NR_splice) {
        __u64 start_ns = timer_start(REQUEST_TIMER_SEND);
        sk = stream_of(send_fd(&call), RECORDER_SEND, result, &now);
        if (sk || unfinished_until_ns)
            sent(sk, connection_of(sk), result, &call, now);
        timer_stop(REQUEST_TIMER_SEND, start_ns);
    }
    return 0;
}

/* ---- with every method ---- */

/* Bytes that were sent on an ending connection without being seen. Another protocol may have changed the reply's
 * length: then unknown. */
static __always_inline bool is_missing_any(struct request_connection *c, struct sock *sk, __u32 *ret_end_seq)
{
    *ret_end_seq = BPF_CORE_READ((struct tcp_sock *)sk, write_seq);
    if (!c->active || *ret_end_seq == c->sent_seq)
        return false;
    return !c->replied || (c->r.status != 101 && BPF_CORE_READ(sk, sk_protocol) == IPPROTO_TCP &&
                           !BPF_CORE_READ((struct inet_connection_sock *)sk, icsk_ulp_ops));
}

/* Whether the connection is closed by the thread that sends on it. It may be past its send: if another thread has
 * closed the descriptor meanwhile, request_syscall_exit cannot find the socket. */
static __always_inline bool is_sending(struct request_connection *c)
{
    struct request_syscall call;
    if (bpf_get_current_pid_tgid() >> 32 != c->r.h.pid)
        return false;
    syscall_current(&call);
    return (is_send(call.number) || call.number == NR_sendfile || call.number == NR_splice) && send_fd(&call) == c->fd;
}

static __always_inline void end_connection(struct request_connection *c, struct sock *sk, __u64 now)
{
    __u64 socket = number_of(sk);
    __u32 end_seq;
    if (c->is_http2)
        http2_close(c, now);
    if (!is_missing_any(c, sk, &end_seq) || !set_aside(c->number, socket, end_seq, now)) {
        forget(c, sk, now);
        return;
    }
    connection_unname(sk);
    if (c->sent_seq == end_seq) /* seen just now */
        complete(c->number, now);
    else if (c->replied && is_sending(c))
        take_rest(c->number, end_seq, now);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(request_connection_state, struct sock *sk, int before, int after)
{
    __u64 key = (__u64)sk;
    if (!has_socket_cookies) /* its address, as a number */
        bpf_probe_read_kernel(&sk, sizeof(sk), &key);
    if (after == TCP_SYN_SENT) {
        record_socket(sk, RECORDER_SEND, 0, false, RECORDER_NO_SYSCALL);
        return 0;
    }
    if (after != TCP_FIN_WAIT1 && after != TCP_LAST_ACK && after != TCP_CLOSE)
        return 0;
    struct request_connection *c = connection_of(sk);
    if (!c)
        return 0;
    __u64 now = bpf_ktime_get_ns(), held = connection_hold(c, now);
    if (c->tls)
        tls_end(c, sk, now);
    end_connection(c, sk, now);
    connection_release(held);
    return 0;
}

/* Run by user space. */
SEC("raw_tp")
int request_flush(void *ctx)
{
    __u64 start_ns = timer_start(REQUEST_TIMER_FLUSH), now = bpf_ktime_get_ns();
    for (__u32 set = 0; set < REQUEST_CONNECTIONS_MAX / 8; set++)
        flush_set(set, now);
    timer_stop(REQUEST_TIMER_FLUSH, start_ns);
    return 0;
}

char LICENSE[] SEC("license") = "GPL";
