/* Copies of plaintext: of a request of OpenAI's API until its reply is sent, which then shows its socket; and of a
 * reply that may be a stream, from when it is written into a memory BIO until it is sent. The program's own memory may
 * have other bytes by then. Programs at uprobes copy; programs at sockets have request_stream.bpf.h read the copies.
 * Part of request.bpf.c. */
#pragma once

#include "probes/request/request_stream.bpf.h"
#include "probes/request/tls_state.bpf.h"

#define TLS_TEXT_BYTES 4096
#define TLS_TEXT_PIECE 1024
#define TLS_TEXTS_MAX  60

struct tls_text_name {
    struct tls_stream_name stream;
    __u64 is_written; /* else it was read */
};

/* The first bytes that were read or written; struct tls_stream has their number. */
struct tls_text {
    char bytes[TLS_TEXT_BYTES + TLS_TEXT_PIECE]; /* pieces begin before TLS_TEXT_BYTES */
};

/* A copy is deleted when it was read. Where there are too many, the one that was used least gives way: the model of its
 * request is then not known, or its tokens are counted as not read. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, TLS_TEXTS_MAX);
    __type(key, struct tls_text_name);
    __type(value, struct tls_text);
} tls_texts SEC(".maps");

/* An empty entry to copy from. */
static const struct tls_text tls_no_text;

/* Adds `bytes` at `from`, in user memory, to the `copied` ones. Returns how many the copy has. Static, as programs at
 * uprobes call it. */
static __noinline __u32 tls_text_add(const struct tls_text_name *name, __u32 copied, __u64 from, __u64 bytes)
{
    struct tls_text *t = bpf_map_lookup_elem(&tls_texts, name);
    if (!t && !copied) {
        bpf_map_update_elem(&tls_texts, name, &tls_no_text, BPF_ANY);
        t = bpf_map_lookup_elem(&tls_texts, name);
    }
    for (int i = 0; t && i < TLS_TEXT_BYTES / TLS_TEXT_PIECE; i++) {
        if (!bytes || copied >= TLS_TEXT_BYTES)
            break;
        const __u64 at = table_index(copied, TLS_TEXT_BYTES - 1), n = at_most(bytes, TLS_TEXT_PIECE);
        if (bpf_probe_read_user(&t->bytes[at], n, (const void *)from) < 0)
            break;
        copied += n;
        from += n;
        bytes -= n;
    }
    return copied;
}

/* Whether the text that was read begins as a request does: methods begin with three capital letters. A body that came
 * in after a reply of status 100 does not. */
static __always_inline bool tls_begins_request(const struct tls_stream *s)
{
    bool is_method = s->line_bytes >= 3;

    for (int i = 0; i < 3; i++)
        is_method &= s->line[i] >= 'A' && s->line[i] <= 'Z';
    return is_method;
}

/* The object has read text. `s` has its first bytes. */
static __always_inline void tls_text_read(struct tls_stream *s, __u64 ssl, __u64 from, __u64 bytes)
{
    if (tls_begins_request(s))
        s->is_api = stream_is_api(s->line, s->line_bytes);
    if (!s->is_api)
        return;
    const struct tls_text_name name = {.stream = tls_name(ssl)};
    s->read_copied = tls_text_add(&name, s->read_copied, from, bytes);
}

/* Whether text that was written may be of a stream, which request_stream.bpf.h then decides: its request is one of
 * OpenAI's API, its process has sent a stream before, or its first byte may begin an event or a chunk. */
static __always_inline bool tls_may_be_stream(const struct tls_stream *s, __u64 process, __u64 from)
{
    __u8 first = 0;
    if (s->is_api || *stream_process_place(process) == (__u32)(process >> 10))
        return true;
    bpf_probe_read_user(&first, sizeof(first), (const void *)from);
    return stream_hex_value(first) >= 0 || first == ':' || first == 'r' || first == 'i';
}

/* The object has written text into a memory BIO, which `s` counts already. The copy has the first bytes that wait in
 * the BIO: after a write that was not copied, further writes are not copied either. */
static __always_inline void tls_text_written(struct tls_stream *s, __u64 ssl, __u64 from, __u64 bytes)
{
    const struct tls_text_name name = {.stream = tls_name(ssl), .is_written = true};
    if (s->written - bytes == s->written_copied && tls_may_be_stream(s, name.stream.process, from))
        s->written_copied = tls_text_add(&name, s->written_copied, from, bytes);
}

/* Returns the address of the copy, for the functions of request_stream.bpf.h; 0: no copy exists. */
static __always_inline __u64 tls_text_address(const struct tls_socket *k, bool is_written)
{
    const struct tls_text_name name = {.stream = k->stream, .is_written = is_written};
    const struct tls_text *t = bpf_map_lookup_elem(&tls_texts, &name);
    return t ? number_of(t->bytes) : 0;
}

/* The copy is not kept: it was read, or its object is gone. */
static __always_inline void tls_text_delete(const struct tls_stream_name *stream, bool is_written)
{
    const struct tls_text_name name = {.stream = *stream, .is_written = is_written};
    bpf_map_delete_elem(&tls_texts, &name);
}
