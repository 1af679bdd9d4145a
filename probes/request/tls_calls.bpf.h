/* Programs at the functions of OpenSSL and BoringSSL: SSL_read, SSL_write, SSL_free or SSL_new, and BIO_write in
 * processes with memory BIOs.
 * They note the plaintext that is read and written (tls_state.bpf.h), and call no global function
 * (common/preemption.bpf.h). Part of request.bpf.c. */
#pragma once

#include "probes/common/preemption.bpf.h"
#include "probes/common/run_timer.bpf.h"
#include "probes/request/open_calls.bpf.h"
#include "probes/request/request_http.bpf.h"
#include "probes/request/tls_http2.bpf.h"
#include "probes/request/tls_records.bpf.h"
#include "probes/request/tls_state.bpf.h"
#include "probes/request/tls_text.bpf.h"

#if defined(__TARGET_ARCH_x86)
#define TLS_ARGUMENT_0(r) ((r)->di)
#define TLS_ARGUMENT_1(r) ((r)->si)
#define TLS_ARGUMENT_2(r) ((r)->dx)
#define TLS_ARGUMENT_3(r) ((r)->cx)
#define TLS_ARGUMENT_4(r) ((r)->r8)
#define TLS_RESULT(r)     ((r)->ax)
#elif defined(__TARGET_ARCH_arm64)
#define TLS_ARGUMENT_0(r) ((r)->regs[0])
#define TLS_ARGUMENT_1(r) ((r)->regs[1])
#define TLS_ARGUMENT_2(r) ((r)->regs[2])
#define TLS_ARGUMENT_3(r) ((r)->regs[3])
#define TLS_ARGUMENT_4(r) ((r)->regs[4])
#define TLS_RESULT(r)     ((r)->regs[0])
#endif

/* An empty entry to copy from, which is too large for the stack. */
static const struct tls_stream tls_no_stream;

static __always_inline struct tls_stream *tls_stream_make(__u64 ssl)
{
    const struct tls_stream_name name = tls_name(ssl);
    struct tls_stream *s = bpf_map_lookup_elem(&tls_streams, &name);
    if (s && !s->is_freed)
        return s;
    bpf_map_update_elem(&tls_streams, &name, &tls_no_stream, BPF_ANY);
    return bpf_map_lookup_elem(&tls_streams, &name);
}

static __always_inline bool is_reply(const char head[TLS_HEAD_BYTES], __u32 bytes)
{
    return bytes >= 8 && low_bytes(*(const __u64 *)head ^ REPLY_START, 7) == 0;
}

/* Whether these are the first 8 bytes of a request by one of the usual methods. */
static __always_inline bool is_usual_head(__u64 head)
{
    return low_bytes(head ^ BYTES8('G', 'E', 'T', ' ', '/', 0, 0, 0), 5) == 0 ||
           low_bytes(head ^ BYTES8('P', 'O', 'S', 'T', ' ', '/', 0, 0), 6) == 0 ||
           low_bytes(head ^ BYTES8('P', 'U', 'T', ' ', '/', 0, 0, 0), 5) == 0 ||
           low_bytes(head ^ BYTES8('H', 'E', 'A', 'D', ' ', '/', 0, 0), 6) == 0 ||
           low_bytes(head ^ BYTES8('P', 'A', 'T', 'C', 'H', ' ', '/', 0), 7) == 0 ||
           low_bytes(head ^ BYTES8('O', 'P', 'T', 'I', 'O', 'N', 'S', ' '), 8) == 0 ||
           low_bytes(head ^ BYTES8('D', 'E', 'L', 'E', 'T', 'E', ' ', '/'), 8) == 0;
}

/* Discards text that no socket has taken. */
static __always_inline void tls_drop_text(struct tls_stream *s)
{
    if (s->line_bytes >= 8 && is_usual_head(*(const __u64 *)s->line))
        lose(REQUEST_LOSS_TLS_UNBOUND);
    s->bytes_in = s->written = 0;
    s->line_bytes = s->head_bytes = 0;
    s->read_copied = s->written_copied = 0;
}

/* ---- what a call has read or written ---- */

#define TLS_LINE_PIECE 32

/* Keeps the first bytes that were read. Copies them in pieces: so the verifier sees that none reaches beyond the
 * line. */
static __always_inline void tls_keep_line(struct tls_stream *s, __u64 text, __u64 bytes)
{
    for (int i = 0; i < REQUEST_LINE_BYTES / TLS_LINE_PIECE; i++) {
        const __u64 at = at_most(s->line_bytes, REQUEST_LINE_BYTES - TLS_LINE_PIECE),
                    n = at_most(bytes, TLS_LINE_PIECE);
        if (!n || at != s->line_bytes || bpf_probe_read_user(&s->line[at], n, (const void *)text) < 0)
            break;
        s->line_bytes = at + n;
        text += n;
        bytes -= n;
    }
}

/* The object, by which its process calls another service, has read the beginning of a reply, or more of one. */
static __always_inline void tls_take_answer(const struct tls_stream *s, __u64 text, __u64 bytes)
{
    struct open_call *o = open_call_find(s->calls_on);
    char head[REPLY_HEAD_BYTES] = {};
    if (!o)
        return;
    bpf_probe_read_user(head, at_most(bytes, sizeof(head)), (const void *)text);
    open_call_end(o, head, false, bpf_ktime_get_ns());
}

static __always_inline void tls_take_read(struct tls_stream *s, __u64 ssl, __u64 id, __u64 text, __u64 bytes,
                                          bool in_loop)
{
    if (s->http2.id) {
        tls_http2_received(s, text, bytes, in_loop);
        return;
    }
    if (s->calls_on) {
        tls_take_answer(s, text, bytes);
        return;
    }
    /* It was replied to, or this is a reply: not on a socket of a server, whose text may be more of a reply that waits
     * to be sent. */
    if (is_reply(s->head, s->head_bytes) ? s->bytes_in : s->head_bytes >= 8 && !s->socket)
        tls_drop_text(s);
    if (!s->bytes_in) {
        s->read_ns = s->next_arrival_ns ? s->next_received_ns : bpf_ktime_get_ns();
        s->reader = id;
        s->arrival_ns = s->next_arrival_ns;
        s->received_ns = s->next_received_ns;
    }
    s->next_arrival_ns = 0;
    s->bytes_in += bytes;
    tls_keep_line(s, text, bytes);
    const bool is_from_start = bytes >= 8 && s->bytes_in == bytes && *(const __u64 *)s->line == HTTP2_PREFACE;
    if (is_from_start || s->has_frames)
        tls_http2_open(s, ssl, is_from_start ? TLS_HTTP2_PREFACE_READ : TLS_HTTP2_IN_MIDDLE);
    if (s->http2.id)
        tls_http2_received(s, text, bytes, in_loop);
    else
        tls_text_read(s, ssl, text, bytes);
}

static __always_inline void tls_note_buffered(struct tls_stream *s, __u32 pid)
{
    const __u8 one = 1;
    if (!s->is_noted)
        bpf_map_update_elem(&tls_buffered, &pid, &one, BPF_NOEXIST);
    s->is_noted = true;
}

static __always_inline void tls_take_written(struct tls_stream *s, __u64 ssl, __u32 pid, __u64 text, __u64 bytes,
                                             bool in_loop)
{
    s->written += bytes;
    if (!s->calls_on)
        tls_text_written(s, ssl, text, bytes);
    if (!s->head_bytes) {
        const __u64 n = at_most(bytes, sizeof(s->head));
        if (bpf_probe_read_user(s->head, n, (const void *)text) == 0)
            s->head_bytes = n;
        if (n >= 8 && is_server(pid) && *(const __u64 *)s->head == HTTP2_PREFACE)
            tls_http2_open(s, ssl, TLS_HTTP2_PREFACE_WRITTEN);
        if (s->http2.id)
            tls_http2_written(s, text, bytes, true, in_loop);
        bytes = 0;
    }
    for (int i = 0; i < REPLY_BYTES; i++) { /* of a reply whose status line comes in pieces */
        const __u64 at = at_most(s->head_bytes, REPLY_BYTES);
        if (i >= bytes || at >= REPLY_BYTES || bpf_probe_read_user(&s->head[at], 1, (const void *)(text + i)) < 0)
            break;
        s->head_bytes = at + 1;
    }
    if (is_reply(s->head, s->head_bytes) || is_server(pid))
        tls_note_buffered(s, pid);
}

/* `size_at`: where the call will put how many bytes it took; 0: it returns that. */
static __always_inline void tls_begin_call(const struct user_registers *r, bool is_write, __u64 size_at)
{
    const __u64 id = bpf_get_current_pid_tgid();
    const __u32 tid = id, pid = id >> 32;
    if (asleep || (skip_pid && pid == skip_pid))
        return;
    const struct tls_call call = {.thread_start_ns = tls_thread_start(),
                                  .stack = r->sp,
                                  .ssl = TLS_ARGUMENT_0(r),
                                  .text = TLS_ARGUMENT_1(r),
                                  .size = size_at ? TLS_ARGUMENT_2(r) : (__u32)TLS_ARGUMENT_2(r),
                                  .size_at = size_at,
                                  .is_write = is_write};
    struct tls_call *t = bpf_map_lookup_elem(&tls_calls, &tid);
    if (t)
        *t = call;
    else
        bpf_map_update_elem(&tls_calls, &tid, &call, BPF_ANY);
    tls_note_process(pid);
}

/* How many bytes the call took; 0: none. */
static __always_inline __u64 tls_call_bytes(const struct tls_call *t, __s32 result)
{
    __u64 bytes = result;
    if (result <= 0 || (t->size_at && bpf_probe_read_user(&bytes, sizeof(bytes), (const void *)t->size_at) < 0))
        return 0;
    return bytes <= t->size ? bytes : 0;
}

static __always_inline void tls_end_call(const struct user_registers *r, bool in_loop)
{
    const __u64 id = bpf_get_current_pid_tgid();
    struct tls_call *t = tls_call_current(id);
    if (!t || r->sp - t->stack > sizeof(__u64)) /* the return of another call */
        return;
    const __u64 ssl = t->ssl, bytes = tls_call_bytes(t, TLS_RESULT(r));
    const bool is_sent = t->is_write && t->sends;
    t->ssl = 0;
    if (is_sent && !t->is_http2 ? bytes && !t->is_repeated : !bytes) /* the object's state does not change */
        return;
    struct tls_stream *s = tls_stream_make(ssl);
    if (!s) {
        lose(REQUEST_LOSS_MAP_FULL);
        return;
    }
    if (!t->is_write) {
        tls_take_read(s, ssl, id, t->text, bytes, in_loop);
    } else if (s->http2.id && bytes) {
        tls_http2_written(s, t->text, bytes, !is_sent, in_loop);
        if (!is_sent)
            tls_note_buffered(s, id >> 32);
    } else if (is_sent) {
        s->text_is_sent = !bytes;
    } else {
        tls_take_written(s, ssl, id >> 32, t->text, bytes, in_loop);
    }
}

/* ---- programs ---- */

SEC("uprobe")
int tls_read(struct user_registers *r)
{
    preemption_disable();
    const __u64 start_ns = timer_start(REQUEST_TIMER_TLS);
    tls_begin_call(r, false, 0);
    timer_stop(REQUEST_TIMER_TLS, start_ns);
    preemption_enable();
    return 0;
}

SEC("uprobe")
int tls_read_ex(struct user_registers *r)
{
    preemption_disable();
    const __u64 start_ns = timer_start(REQUEST_TIMER_TLS);
    tls_begin_call(r, false, TLS_ARGUMENT_3(r));
    timer_stop(REQUEST_TIMER_TLS, start_ns);
    preemption_enable();
    return 0;
}

SEC("uprobe")
int tls_write(struct user_registers *r)
{
    preemption_disable();
    const __u64 start_ns = timer_start(REQUEST_TIMER_TLS);
    tls_begin_call(r, true, 0);
    timer_stop(REQUEST_TIMER_TLS, start_ns);
    preemption_enable();
    return 0;
}

SEC("uprobe")
int tls_write_ex(struct user_registers *r)
{
    preemption_disable();
    const __u64 start_ns = timer_start(REQUEST_TIMER_TLS);
    tls_begin_call(r, true, TLS_ARGUMENT_3(r));
    timer_stop(REQUEST_TIMER_TLS, start_ns);
    preemption_enable();
    return 0;
}

SEC("uprobe")
int tls_write_ex2(struct user_registers *r)
{
    preemption_disable();
    const __u64 start_ns = timer_start(REQUEST_TIMER_TLS);
    tls_begin_call(r, true, TLS_ARGUMENT_4(r));
    timer_stop(REQUEST_TIMER_TLS, start_ns);
    preemption_enable();
    return 0;
}

/* Programs that walk through HTTP/2 are there twice: in a loop of the kernel's (5.17 and later), which is possible
 * while preemption is disabled, and by calls of a global function. */
SEC("uretprobe")
int tls_return(struct user_registers *r)
{
    preemption_disable();
    const __u64 start_ns = timer_start(REQUEST_TIMER_TLS);
    tls_end_call(r, true);
    timer_stop(REQUEST_TIMER_TLS, start_ns);
    preemption_enable();
    return 0;
}

SEC("uretprobe")
int tls_return_by_calls(struct user_registers *r)
{
    preemption_disable();
    const __u64 start_ns = timer_start(REQUEST_TIMER_TLS);
    tls_end_call(r, false);
    timer_stop(REQUEST_TIMER_TLS, start_ns);
    preemption_enable();
    return 0;
}

/* The object is gone, or begins: another one had its address. */
static __always_inline void tls_forget_object(__u64 ssl)
{
    const struct tls_stream_name name = tls_name(ssl);
    struct tls_stream *s = bpf_map_lookup_elem(&tls_streams, &name);
    if (s && s->socket && s->bytes_in) {
        s->is_freed = true;
    } else if (s) {
        tls_drop_text(s);
        tls_text_delete(&name, false);
        tls_text_delete(&name, true);
        tls_http2_close(s);
        bpf_map_delete_elem(&tls_streams, &name);
    }
}

SEC("uprobe")
int tls_free(struct user_registers *r)
{
    preemption_disable();
    const __u64 start_ns = timer_start(REQUEST_TIMER_TLS);
    tls_forget_object(TLS_ARGUMENT_0(r));
    timer_stop(REQUEST_TIMER_TLS, start_ns);
    preemption_enable();
    return 0;
}

SEC("uretprobe")
int tls_new(struct user_registers *r)
{
    preemption_disable();
    const __u64 start_ns = timer_start(REQUEST_TIMER_TLS);
    tls_forget_object(TLS_RESULT(r));
    timer_stop(REQUEST_TIMER_TLS, start_ns);
    preemption_enable();
    return 0;
}

/* A TLS record goes to a BIO. */
SEC("uprobe")
int tls_bio_write(struct user_registers *r)
{
    preemption_disable();
    const __u64 start_ns = timer_start(REQUEST_TIMER_TLS);
    const struct tls_call *t = tls_call_current(bpf_get_current_pid_tgid());
    const __u32 bytes = TLS_ARGUMENT_2(r);
    struct tls_stream *s = NULL;
    if (t && t->is_write && (__s32)bytes > 0 && tls_is_inside(t, r->sp))
        s = tls_stream_make(t->ssl);
    if (s) {
        const struct tls_stream_name name = tls_name(t->ssl);
        const __u64 hash = tls_record_hash((const void *)TLS_ARGUMENT_1(r), bytes);
        s->produced += bytes;
        if (hash)
            bpf_map_update_elem(&tls_records, &hash, &name, BPF_ANY);
    }
    timer_stop(REQUEST_TIMER_TLS, start_ns);
    preemption_enable();
    return 0;
}

/* ---- Go: crypto/tls, whose calling convention has the arguments in ax, bx, cx and the goroutine in r14 ---- */

#if defined(__TARGET_ARCH_x86)
#define TLS_GO(r, amd64) ((r)->amd64)
#else
#define TLS_GO(r, amd64) 0ULL /* not attached there */
#endif

static __always_inline void tls_begin_go(const struct user_registers *r, bool is_write)
{
    const __u64 id = bpf_get_current_pid_tgid();
    const __u32 pid = id >> 32;
    if (asleep || (skip_pid && pid == skip_pid))
        return;
    const struct tls_goroutine key = {.address = TLS_GO(r, r14), .process = current_process_inline(pid)};
    const struct tls_call call = {.stack = r->sp,
                                  .ssl = TLS_GO(r, ax),
                                  .text = TLS_GO(r, bx),
                                  .size = TLS_GO(r, cx),
                                  .is_write = is_write,
                                  .is_go = true};
    bpf_map_update_elem(&tls_goroutines, &key, &call, BPF_ANY);
    tls_has_go = true;
    tls_note_process(pid);
    struct tls_stream *s = is_write ? tls_stream_make(call.ssl) : NULL;
    if (s) {
        s->produced += call.size;
        tls_http2_begin_go_write(s);
    }
}

SEC("uprobe")
int tls_go_read(struct user_registers *r)
{
    preemption_disable();
    const __u64 start_ns = timer_start(REQUEST_TIMER_TLS);
    tls_begin_go(r, false);
    timer_stop(REQUEST_TIMER_TLS, start_ns);
    preemption_enable();
    return 0;
}

SEC("uprobe")
int tls_go_write(struct user_registers *r)
{
    preemption_disable();
    const __u64 start_ns = timer_start(REQUEST_TIMER_TLS);
    tls_begin_go(r, true);
    timer_stop(REQUEST_TIMER_TLS, start_ns);
    preemption_enable();
    return 0;
}

/* Plaintext is copied to the caller of Read, whose call ends with that. A connection's address may be another one's
 * next: text that no socket has taken is then not followed by a request. */
static __always_inline void tls_take_go_text(const struct user_registers *r, bool in_loop)
{
    struct tls_call *t = tls_call_of_goroutine(TLS_GO(r, r14));
    struct tls_stream *s = t && !t->is_write ? tls_stream_make(t->ssl) : NULL;
    __u64 head = 0;
    if (!s)
        return;
    const __u64 ssl = t->ssl;
    t->ssl = 0;
    if ((s->http2.id || s->calls_on || (s->bytes_in && !s->socket)) && TLS_GO(r, cx) >= sizeof(head) &&
        bpf_probe_read_user(&head, sizeof(head), (const void *)TLS_GO(r, bx)) == 0 &&
        (head == HTTP2_PREFACE || is_usual_head(head))) {
        tls_drop_text(s);
        tls_http2_close(s);
        s->calls_on = 0;
    }
    tls_take_read(s, ssl, bpf_get_current_pid_tgid(), TLS_GO(r, bx), at_most(TLS_GO(r, cx), 0x7fffffff), in_loop);
}

SEC("uprobe")
int tls_go_text(struct user_registers *r)
{
    preemption_disable();
    const __u64 start_ns = timer_start(REQUEST_TIMER_TLS);
    tls_take_go_text(r, true);
    timer_stop(REQUEST_TIMER_TLS, start_ns);
    preemption_enable();
    return 0;
}

SEC("uprobe")
int tls_go_text_by_calls(struct user_registers *r)
{
    preemption_disable();
    const __u64 start_ns = timer_start(REQUEST_TIMER_TLS);
    tls_take_go_text(r, false);
    timer_stop(REQUEST_TIMER_TLS, start_ns);
    preemption_enable();
    return 0;
}
