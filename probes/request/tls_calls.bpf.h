/* Programs at the functions of OpenSSL: SSL_read, SSL_write, SSL_free, and BIO_write in processes with memory BIOs.
 * They note what is read and written (tls_state.bpf.h), and call no global function (common/preemption.bpf.h). Part of
 * request.bpf.c. */
#pragma once

#include "probes/common/preemption.bpf.h"
#include "probes/request/request_http.bpf.h"
#include "probes/request/tls_records.bpf.h"
#include "probes/request/tls_state.bpf.h"

#if defined(__TARGET_ARCH_x86)
#define TLS_ARGUMENT_0(r) ((r)->di)
#define TLS_ARGUMENT_1(r) ((r)->si)
#define TLS_ARGUMENT_2(r) ((r)->dx)
#define TLS_ARGUMENT_3(r) ((r)->cx)
#define TLS_RESULT(r)     ((r)->ax)
#elif defined(__TARGET_ARCH_arm64)
#define TLS_ARGUMENT_0(r) ((r)->regs[0])
#define TLS_ARGUMENT_1(r) ((r)->regs[1])
#define TLS_ARGUMENT_2(r) ((r)->regs[2])
#define TLS_ARGUMENT_3(r) ((r)->regs[3])
#define TLS_RESULT(r)     ((r)->regs[0])
#endif

/* An empty entry to copy from, which is too large for the stack. */
static const struct tls_stream tls_no_stream;

static __always_inline struct tls_stream *tls_stream_make(__u32 pid, __u64 ssl)
{
    const struct tls_stream_name name = {.ssl = ssl, .pid = pid};
    struct tls_stream *s = bpf_map_lookup_elem(&tls_streams, &name);
    if (s && !s->is_freed)
        return s;
    bpf_map_update_elem(&tls_streams, &name, &tls_no_stream, BPF_ANY);
    return bpf_map_lookup_elem(&tls_streams, &name);
}

static __always_inline bool is_reply(const char head[12], __u32 bytes)
{
    return bytes >= 8 && low_bytes(*(const __u64 *)head ^ REPLY_START, 7) == 0;
}

/* The usual methods: for counting only. */
static __always_inline bool is_usual_request(const struct tls_stream *s)
{
    const __u64 head = *(const __u64 *)s->line;
    return s->line_bytes >= 8 && (low_bytes(head ^ BYTES8('G', 'E', 'T', ' ', '/', 0, 0, 0), 5) == 0 ||
                                  low_bytes(head ^ BYTES8('P', 'O', 'S', 'T', ' ', '/', 0, 0), 6) == 0 ||
                                  low_bytes(head ^ BYTES8('P', 'U', 'T', ' ', '/', 0, 0, 0), 5) == 0 ||
                                  low_bytes(head ^ BYTES8('H', 'E', 'A', 'D', ' ', '/', 0, 0), 6) == 0 ||
                                  low_bytes(head ^ BYTES8('D', 'E', 'L', 'E', 'T', 'E', ' ', '/'), 8) == 0);
}

/* Discards text that no socket has taken. */
static __always_inline void tls_drop_text(struct tls_stream *s)
{
    if (is_usual_request(s))
        lose(REQUEST_LOSS_TLS_UNBOUND);
    s->bytes_in = s->written = 0;
    s->line_bytes = s->head_bytes = 0;
}

/* ---- what a call has read or written ---- */

static __always_inline void tls_take_read(struct tls_stream *s, __u64 id, __u64 text, __u64 bytes)
{
    if (s->bytes_in && is_reply(s->head, s->head_bytes)) /* and it was replied to */
        tls_drop_text(s);
    if (!s->bytes_in) {
        s->read_ns = bpf_ktime_get_ns();
        s->reader = id;
        s->arrival_ns = s->next_arrival_ns;
        s->received_ns = s->next_received_ns;
    }
    s->next_arrival_ns = 0;
    s->bytes_in += bytes;
    const __u64 at = at_most(s->line_bytes, REQUEST_LINE_BYTES),
                more = at_most(bytes, at_most(REQUEST_LINE_BYTES - at, REQUEST_LINE_BYTES));
    if (more && bpf_probe_read_user(&s->line[at], more, (const void *)text) == 0)
        s->line_bytes = at + more;
}

static __always_inline void tls_take_written(struct tls_stream *s, __u32 pid, __u64 text, __u64 bytes)
{
    s->written += bytes;
    if (!s->head_bytes && bytes >= sizeof(s->head) &&
        bpf_probe_read_user(s->head, sizeof(s->head), (const void *)text) == 0)
        s->head_bytes = sizeof(s->head);
    for (int i = 0; i < sizeof(s->head); i++) {
        const __u64 at = at_most(s->head_bytes, sizeof(s->head));
        if (i >= bytes || at >= sizeof(s->head) || bpf_probe_read_user(&s->head[at], 1, (const void *)(text + i)) < 0)
            break;
        s->head_bytes = at + 1;
    }
    if (s->is_noted || !is_reply(s->head, s->head_bytes))
        return;
    const __u8 one = 1;
    s->is_noted = true;
    bpf_map_update_elem(&tls_buffered, &pid, &one, BPF_NOEXIST);
}

static __always_inline void tls_begin_call(const struct user_registers *r, bool is_write, bool has_size_at)
{
    const __u64 id = bpf_get_current_pid_tgid();
    const __u32 tid = id, pid = id >> 32;
    if (asleep || (skip_pid && pid == skip_pid))
        return;
    const struct tls_call call = {.thread_start_ns = tls_thread_start(),
                                  .ssl = TLS_ARGUMENT_0(r),
                                  .text = TLS_ARGUMENT_1(r),
                                  .size = has_size_at ? TLS_ARGUMENT_2(r) : (__u32)TLS_ARGUMENT_2(r),
                                  .size_at = has_size_at ? TLS_ARGUMENT_3(r) : 0,
                                  .is_write = is_write};
    struct tls_call *t = bpf_map_lookup_elem(&tls_calls, &tid);
    if (t)
        *t = call;
    else
        bpf_map_update_elem(&tls_calls, &tid, &call, BPF_ANY);
    if (!tls_is_process(pid))
        __sync_fetch_and_or(&tls_processes[pid % TLS_PID_BITS / 64], 1ULL << (pid % 64));
}

/* How many bytes the call took; 0: none. */
static __always_inline __u64 tls_call_bytes(const struct tls_call *t, __s32 result)
{
    __u64 bytes = result;
    if (result <= 0 || (t->size_at && bpf_probe_read_user(&bytes, sizeof(bytes), (const void *)t->size_at) < 0))
        return 0;
    return bytes <= t->size ? bytes : 0;
}

static __always_inline void tls_end_call(const struct user_registers *r)
{
    const __u64 id = bpf_get_current_pid_tgid();
    struct tls_call *t = tls_call_current(id);
    if (!t)
        return;
    const __u64 ssl = t->ssl, bytes = tls_call_bytes(t, TLS_RESULT(r));
    const bool is_sent = t->is_write && t->sends;
    t->ssl = 0;
    if (!bytes && !is_sent)
        return;
    struct tls_stream *s = tls_stream_make(id >> 32, ssl);
    if (!s) {
        lose(REQUEST_LOSS_MAP_FULL);
        return;
    }
    if (is_sent)
        s->text_is_sent = !bytes;
    else if (t->is_write)
        tls_take_written(s, id >> 32, t->text, bytes);
    else
        tls_take_read(s, id, t->text, bytes);
}

/* ---- programs ---- */

SEC("uprobe")
int tls_read(struct user_registers *r)
{
    preemption_disable();
    tls_begin_call(r, false, false);
    preemption_enable();
    return 0;
}

SEC("uprobe")
int tls_read_ex(struct user_registers *r)
{
    preemption_disable();
    tls_begin_call(r, false, true);
    preemption_enable();
    return 0;
}

SEC("uprobe")
int tls_write(struct user_registers *r)
{
    preemption_disable();
    tls_begin_call(r, true, false);
    preemption_enable();
    return 0;
}

SEC("uprobe")
int tls_write_ex(struct user_registers *r)
{
    preemption_disable();
    tls_begin_call(r, true, true);
    preemption_enable();
    return 0;
}

SEC("uretprobe")
int tls_return(struct user_registers *r)
{
    preemption_disable();
    tls_end_call(r);
    preemption_enable();
    return 0;
}

/* The object's address may be another one's next. */
SEC("uprobe")
int tls_free(struct user_registers *r)
{
    preemption_disable();
    const struct tls_stream_name name = {.ssl = TLS_ARGUMENT_0(r), .pid = bpf_get_current_pid_tgid() >> 32};
    struct tls_stream *s = bpf_map_lookup_elem(&tls_streams, &name);
    if (s && s->socket && s->bytes_in) {
        s->is_freed = true;
    } else if (s) {
        tls_drop_text(s);
        bpf_map_delete_elem(&tls_streams, &name);
    }
    preemption_enable();
    return 0;
}

/* A TLS record goes to a BIO. */
SEC("uprobe")
int tls_bio_write(struct user_registers *r)
{
    preemption_disable();
    const __u64 id = bpf_get_current_pid_tgid();
    const struct tls_call *t = tls_call_current(id);
    const __u32 bytes = TLS_ARGUMENT_2(r);
    struct tls_stream *s = t && t->is_write && (__s32)bytes > 0 ? tls_stream_make(id >> 32, t->ssl) : NULL;
    if (s) {
        const struct tls_stream_name name = {.ssl = t->ssl, .pid = id >> 32};
        const __u64 hash = tls_record_hash((const void *)TLS_ARGUMENT_1(r), bytes);
        s->produced += bytes;
        if (hash)
            bpf_map_update_elem(&tls_records, &hash, &name, BPF_ANY);
    }
    preemption_enable();
    return 0;
}
