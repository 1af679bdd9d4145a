/* What a server asks other services for while it serves requests: the statement, command or method at the beginning of
 * what it sends, by its protocol's own messages. Only in processes that serve requests, so that no other program pays
 * for it. Over TLS it is the plaintext: of the library's write that the system call is inside of, or that has put the
 * bytes into memory. Part of request.bpf.c. */
#pragma once

#include "probes/common/hash.h"
#include "probes/recorder/client_call.h"
#include "probes/request/request_recorder.bpf.h"
#include "probes/request/request_send.bpf.h"

#define STATEMENTS_MAX 1024
#define STATEMENT_NAME 48 /* a prepared statement with a longer name is not known */
#define TEXT_BYTES     TLS_HEAD_BYTES
#define SPACES_MAX     32 /* before a statement */

/* The word of a prepared statement, by its connection and its name. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, STATEMENTS_MAX);
    __type(key, __u64);
    __type(value, __u8);
} client_statements SEC(".maps");

struct client_word_text {
    char letters[8];
} __attribute__((aligned(8)));

#define CLIENT_WORD_TEXT(word) [CLIENT_##word] = {#word},
static const struct client_word_text client_words[CLIENT_WORD_COUNT] = {CLIENT_WORDS(CLIENT_WORD_TEXT)};
#undef CLIENT_WORD_TEXT

/* The text of a send; by CPU, as the stack has no room for it. */
struct client_text {
    char bytes[TEXT_BYTES] __attribute__((aligned(8)));
    __u64 at; /* in user memory, or in the kernel's */
    __u64 socket;
    __u64 ssl;      /* the object of TLS that has written it; 0: it is sent as it is */
    __u32 size;     /* bytes at `at` */
    __u32 total;    /* bytes of the text, of which those may be the first part */
    bool is_kernel; /* `at` is a copy in kernel memory */
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct client_text);
} client_texts SEC(".maps");

static __always_inline struct client_text *client_text_get(void)
{
    __u32 zero = 0;
    return bpf_map_lookup_elem(&client_texts, &zero);
}

static __always_inline long client_read(const struct client_text *t, void *to, __u32 bytes, __u32 at)
{
    return t->is_kernel ? bpf_probe_read_kernel(to, bytes, (const void *)(t->at + at))
                        : bpf_probe_read_user(to, bytes, (const void *)(t->at + at));
}

/* Which of the known words begins `at` bytes behind the beginning of the text. */
__noinline int client_word_at(__u32 at)
{
    const struct client_text *t = client_text_get();
    struct client_word_text word = {}, capitals = {};
    if (!t || at >= t->size || client_read(t, &word, sizeof(word), at) < 0)
        return CLIENT_OTHER;
    for (int i = 0; i < 8; i++) {
        const __u8 letter = word.letters[i] & 0xdf;
        if (at + i >= t->size || letter < 'A' || letter > 'Z')
            break;
        capitals.letters[i] = letter;
    }
    const __u64 wanted = *(__u64 *)capitals.letters;
    for (int i = CLIENT_PREPARED + 1; i < CLIENT_WORD_COUNT; i++)
        if (*(const __u64 *)client_words[i].letters == wanted)
            return i;
    return CLIENT_OTHER;
}

/* The word of a statement, which may begin with spaces and new lines. */
__noinline int client_statement_at(__u32 at)
{
    const struct client_text *t = client_text_get();
    char space = 0;
    for (int i = 0; t && i < SPACES_MAX; i++) {
        if (client_read(t, &space, 1, at) < 0 || (space != ' ' && (space < '\t' || space > '\r')))
            break;
        at++;
    }
    return client_word_at(at);
}

/* Where the zero-terminated name that begins at `at` ends, and, in *ret_hash, a hash of it. 0: it is too long. */
static __always_inline __u32 client_name_end(const struct client_text *t, __u32 at, __u64 *ret_hash)
{
    char name[STATEMENT_NAME];
    __u64 hash = 0;
    const void *from = (const void *)(t->at + at);
    long n = t->is_kernel ? bpf_probe_read_kernel_str(name, sizeof(name), from)
                          : bpf_probe_read_user_str(name, sizeof(name), from);
    if (n < 0 || n >= STATEMENT_NAME)
        return 0;
    n = n ?: 1; /* of an empty one, kernels before 6.13 return 0 */
    for (int i = 0; i < STATEMENT_NAME; i++) {
        if (i >= n - 1)
            break;
        hash = hash_mix(hash, name[i]);
    }
    *ret_hash = hash_mix(hash, t->socket);
    return at + n;
}

static __always_inline __u32 big_endian_at(const struct client_text *t, __u32 at)
{
    return (__u32)(__u8)t->bytes[at] << 24 | (__u32)(__u8)t->bytes[at + 1] << 16 | (__u32)(__u8)t->bytes[at + 2] << 8 |
           (__u8)t->bytes[at + 3];
}

/* PostgreSQL: 'Q' has a statement; 'P' prepares one under a name; 'B' has the name of a prepared one. Each of these
 * letters is followed by the length of the message. */
__noinline int client_postgresql(void)
{
    const struct client_text *t = client_text_get();
    __u64 name = 0;
    if (!t || t->size < 8)
        return RECORDER_NO_SYSCALL;
    const char type = t->bytes[0];
    const __u32 end = 1 + big_endian_at(t, 1);
    if (end < 6 || end > 1 << 24)
        return RECORDER_NO_SYSCALL;
    if (type == 'Q')
        return end == t->total ? client_call(CLIENT_POSTGRESQL, client_statement_at(5)) : RECORDER_NO_SYSCALL;
    if (end > t->total || (type == 'B' && t->bytes[5])) /* of a named portal */
        return RECORDER_NO_SYSCALL;
    __u8 next = 0; /* the next message's type */
    const bool has_next = end < (t->is_kernel ? t->size : t->total);
    if (has_next && (client_read(t, &next, 1, end) < 0 || (next != 'B' && next != 'D' && next != 'E' && next != 'S' &&
                                                           next != 'H' && next != 'P' && next != 'C')))
        return RECORDER_NO_SYSCALL;
    const __u32 after = client_name_end(t, type == 'P' ? 5 : 6, &name);
    if (!after)
        return client_call(CLIENT_POSTGRESQL, CLIENT_PREPARED);
    if (type == 'B') {
        const __u8 *word = bpf_map_lookup_elem(&client_statements, &name);
        return client_call(CLIENT_POSTGRESQL, word ? *word : CLIENT_PREPARED);
    }
    const __u8 word = client_statement_at(after);
    bpf_map_update_elem(&client_statements, &name, &word, BPF_ANY);
    return client_call(CLIENT_POSTGRESQL, word);
}

#define MYSQL_QUERY   0x03
#define MYSQL_PREPARE 0x16
#define MYSQL_EXECUTE 0x17

/* MySQL: three bytes of length, a sequence number, which is 0, and the command. A client sends one and waits. */
__noinline int client_mysql(void)
{
    const struct client_text *t = client_text_get();
    if (!t || t->size < 8)
        return RECORDER_NO_SYSCALL;
    const __u32 length = (__u8)t->bytes[0] | (__u32)(__u8)t->bytes[1] << 8 | (__u32)(__u8)t->bytes[2] << 16;
    const __u8 command = t->bytes[4];
    if (t->bytes[3] || length + 4 != t->total)
        return RECORDER_NO_SYSCALL;
    if (command == MYSQL_EXECUTE)
        return client_call(CLIENT_MYSQL, CLIENT_PREPARED);
    if (command != MYSQL_QUERY && command != MYSQL_PREPARE)
        return RECORDER_NO_SYSCALL;
    const bool has_attributes = t->bytes[5] == 0 && t->bytes[6] == 1; /* their number, none, of one set */
    return client_call(CLIENT_MYSQL, client_statement_at(command == MYSQL_QUERY && has_attributes ? 7 : 5));
}

/* Redis: "*2\r\n$3\r\nGET\r\n...". Of several commands in one send, the first. */
__noinline int client_redis(void)
{
    const struct client_text *t = client_text_get();
    __u32 lines = 0;
    if (!t || t->size < 12)
        return RECORDER_NO_SYSCALL;
    for (__u32 i = 1; i < 16 && i < t->size; i++) {
        const char c = t->bytes[i];
        if (c == '\n' && ++lines == 2)
            return client_call(CLIENT_REDIS, client_word_at(i + 1));
        if (c != '\n' && c != '\r' && c != '$' && (c < '0' || c > '9'))
            return RECORDER_NO_SYSCALL;
    }
    return RECORDER_NO_SYSCALL;
}

/* HTTP/1: a method that is followed by a path or an address. */
__noinline int client_http(void)
{
    const struct client_text *t = client_text_get();
    if (!t || t->size < 16)
        return RECORDER_NO_SYSCALL;
    for (__u32 i = 3; i < 8; i++)
        if (t->bytes[i] == ' ') {
            const int word = t->bytes[i + 1] == '/' || t->bytes[i + 1] == 'h' ? client_word_at(0) : CLIENT_OTHER;
            return word == CLIENT_OTHER ? RECORDER_NO_SYSCALL : client_call(CLIENT_HTTP, word);
        }
    return RECORDER_NO_SYSCALL;
}

/* The text is what the object `ssl` writes in the call that the thread is in. */
static __always_inline void client_text_of_write(struct client_text *t, __u64 ssl)
{
    const struct tls_call *written = tls_call_of_syscall(bpf_get_current_pid_tgid());
    t->ssl = ssl;
    t->at = written ? written->text : 0;
    t->size = t->total = written ? at_most(written->size, 0x7fffffff) : 0;
}

/* The text is what the object `ssl` has written into memory, which may have other bytes by now: its first ones were
 * kept. */
static __always_inline void client_text_of_memory(struct client_text *t, __u64 ssl)
{
    const struct tls_stream_name name = tls_name(ssl);
    struct tls_stream *s = bpf_map_lookup_elem(&tls_streams, &name);
    t->ssl = ssl;
    t->is_kernel = true;
    t->at = s ? number_of(s->head) : 0;
    t->size = s ? s->head_bytes : 0;
    t->total = s ? s->written : 0;
    if (s)
        s->written = s->written_copied = s->head_bytes = 0;
}

/* Finds the text that the current thread sends: that of an object of TLS, or else that of the system call, which has
 * sent `bytes`. */
static __always_inline void client_text_set(struct client_text *t, __u32 bytes)
{
    struct request_syscall call;
    syscall_current(&call);
    t->at = (__u64)syscall_buffer(&call, &t->size);
    t->size = bytes < t->size ? bytes : t->size;
    t->total = bytes;
    t->ssl = 0;
    t->is_kernel = false;
    if (!reads_tls || !tls_is_process(bpf_get_current_pid_tgid() >> 32))
        return;
    const __u64 ssl = tls_object_of_send(t->at, t->size);
    if (ssl & TLS_OBJECT_NESTED)
        client_text_of_write(t, ssl & ~TLS_OBJECT_NESTED);
    else if (ssl)
        client_text_of_memory(t, ssl);
}

/* In place of a call. */
#define CLIENT_SENDS_STREAM   0x7ffd
#define CLIENT_BEGINS_HTTP2   0x7ffe
#define CLIENT_HTTP2_OVER_TLS 0x7fff

/* Whether the text, of an object of TLS, is HTTP/2, which begins with a preface. What is in memory was found to be
 * when it was written (tls_calls.bpf.h). */
static __always_inline bool client_is_http2_over_tls(const struct client_text *t, bool has_preface)
{
    struct tls_stream *s = tls_stream_make(t->ssl);
    if (s && !s->http2.id && has_preface && !t->is_kernel)
        tls_http2_open(s, t->ssl, TLS_HTTP2_PREFACE_WRITTEN);
    return s && s->http2.id;
}

/* Whether the text begins as a stream of HTTP/2: with all header fields of a request in one frame. `t` has its first
 * `n` bytes. */
static __always_inline bool client_begins_stream(const struct client_text *t, __u64 n)
{
    const __u8 *head = (const __u8 *)t->bytes;
    return n >= HTTP2_HEAD_BYTES && !head[0] && head[3] == HTTP2_HEADERS && head[4] & HTTP2_END_HEADERS &&
           head[8] & 1 && http2_is_head(*(const __u64 *)head, head[8], true);
}

/* The call (client_call) that the send of `bytes` on this socket carries, in the thread that sends;
 * RECORDER_NO_SYSCALL: not known; CLIENT_BEGINS_HTTP2, CLIENT_HTTP2_OVER_TLS: its calls are streams;
 * CLIENT_SENDS_STREAM: they are if the bytes are whole frames. */
__noinline int client_call_of(__u64 socket, __u32 bytes)
{
    struct client_text *t = client_text_get();
    if (!t)
        return RECORDER_NO_SYSCALL;
    client_text_set(t, bytes);
    t->socket = socket;
    const __u64 n = at_most(t->size, TEXT_BYTES);
    const bool is_read = t->at && n >= 6 && client_read(t, t->bytes, n, 0) == 0,
               has_preface = is_read && n >= 8 && *(const __u64 *)t->bytes == HTTP2_PREFACE;
    if (reads_tls && t->ssl && client_is_http2_over_tls(t, has_preface))
        return CLIENT_HTTP2_OVER_TLS;
    if (has_preface && !t->ssl)
        return CLIENT_BEGINS_HTTP2;
    if (!is_read)
        return RECORDER_NO_SYSCALL;
    if (!t->ssl && client_begins_stream(t, n))
        return CLIENT_SENDS_STREAM;
    const char first = t->bytes[0];
    int call = RECORDER_NO_SYSCALL;
    if (first == 'Q' || first == 'P' || first == 'B')
        call = client_postgresql();
    else if (first == '*')
        call = client_redis();
    if (call == RECORDER_NO_SYSCALL && first >= 'D' && first <= 'P')
        call = client_http();
    return call == RECORDER_NO_SYSCALL ? client_mysql() : call;
}

/* The call of a send of `bytes` by the current thread. A server's own replies are no calls: none on a connection that
 * it accepted, or that has an entry among the connections. */
static __always_inline int client_call_sent(struct sock *sk, __s32 bytes, bool has_connection)
{
    const __u32 pid = bpf_get_current_pid_tgid() >> 32;
    if (!has_recorder || asleep || has_connection || bytes <= 0 || !is_server(pid) || is_accepted(sk))
        return RECORDER_NO_SYSCALL;
    return client_call_of(socket_name(sk), bytes);
}
