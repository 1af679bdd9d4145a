/* Plaintext of OpenSSL until its socket is known: maps, and how their entries are found. Part of request.bpf.c.
 *
 * Programs at uprobes (tls_calls.bpf.h) only collect what a thread reads and writes by an SSL object. The programs at
 * sockets (tls_sockets.bpf.h) find out which SSL object belongs to a socket, by the bytes of a send, and only then is
 * the text a request on that socket, or its reply. */
#pragma once

#include "probes/request/http2_walk.bpf.h"
#include "probes/request/request_calls.bpf.h"

#define TLS_STREAMS_MAX    2048
#define TLS_THREADS_MAX    2048
#define TLS_GOROUTINES_MAX 4096 /* each waits in a read while its connection is idle */
#define TLS_RECORDS_MAX    4096
#define TLS_BUFFERED_MAX   256
#define TLS_PIDS           32768 /* a power of two */
#define TLS_STACK_BYTES    65536 /* of the functions that OpenSSL calls */
#define TLS_HEAD_BYTES     64    /* of written text: what a reply, or a call of another service, begins with */

/* Set before loading: programs read the plaintext of TLS. */
const volatile bool reads_tls = false;

/* What a thread does: at most one call of an SSL object at a time. */
struct tls_call {
    __u64 thread_start_ns; /* of the thread: another one may get its ID */
    __u64 stack;           /* the user stack pointer at its entry */
    __u64 ssl;             /* the object; 0: the thread is in no call */
    __u64 text;            /* where its text is or comes, in user memory */
    __u64 size;            /* bytes at `text` */
    __u64 size_at;         /* where the call puts how many bytes it took; 0: it returns that */
    __u32 sends;           /* on sockets, meanwhile */
    bool is_write;
    bool is_repeated; /* an earlier try of the same write has sent the text */
    bool is_go;       /* of a goroutine: its end is not seen */
    bool is_http2;    /* its text is frames, as far as a send has shown */
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, TLS_THREADS_MAX);
    __type(key, __u32); /* thread */
    __type(value, struct tls_call);
} tls_calls SEC(".maps");

/* Go: the same by goroutine, whose address is in r14 of its threads, in system calls as well. */
struct tls_goroutine {
    __u64 address, process;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, TLS_GOROUTINES_MAX);
    __type(key, struct tls_goroutine);
    __type(value, struct tls_call);
} tls_goroutines SEC(".maps");

volatile bool tls_has_go = false; /* a program of Go was seen */

struct tls_stream_name {
    __u64 ssl, process; /* the object's address; the name of the process (request_process_name) */
};

/* The text of an object that is HTTP/2 (tls_http2.bpf.h). */
struct tls_http2 {
    __u64 id;        /* its name in records; 0: the text is not known to be HTTP/2 */
    __u64 socket;    /* that is reported to be its own; 0: none */
    bool is_unsent;  /* frames are in a memory BIO whose send is to be reported */
    bool is_untaken; /* Go: the last text that was written has not been walked through yet */
    struct http2_side side[2];
};

/* The text of one SSL object that no socket has taken yet. */
struct tls_stream {
    struct tls_http2 http2;
    __u64 socket;                            /* the name of the socket that it belongs to; 0: not known yet */
    __u64 calls_on;                          /* of the socket on which its process calls another service by it;
                                                0: none, as far as is known */
    __u64 read_ns;                           /* when the first of the bytes below was read */
    __u64 reader;                            /* PID << 32 | thread that read it */
    __u64 arrival_ns;                        /* of the TLS record that held it, at the socket; 0: not known */
    __u64 received_ns;                       /* when that was read from the socket */
    __u64 next_arrival_ns, next_received_ns; /* likewise, of text that is still to be read */
    __u64 produced;                          /* bytes of TLS records that writes have put into a memory BIO, */
    __u64 sent;                              /* and the part of them that the socket has sent */
    __u32 bytes_in;                          /* read: so many bytes of text, */
    __u32 written;                           /* and written into a memory BIO */
    __u16 read_copied, written_copied;       /* bytes of that which tls_text.bpf.h has a copy of */
    __u8 line_bytes, head_bytes;
    bool is_api;               /* the latest request is one of OpenAI's API */
    bool text_is_sent;         /* of a write that did not finish: it will be tried again */
    bool is_noted;             /* its process is among tls_buffered */
    bool has_frames;           /* its text is HTTP/2 that began before it was known: the next text that is read begins
                                  with a frame */
    bool is_freed;             /* the object is gone; its last request waits for the end of the connection */
    char head[TLS_HEAD_BYTES]; /* the first bytes written, */
    char line[REQUEST_LINE_BYTES]; /* and the first bytes read */
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, TLS_STREAMS_MAX);
    __type(key, struct tls_stream_name);
    __type(value, struct tls_stream);
} tls_streams SEC(".maps");

/* TLS records that wait in a memory BIO to be sent, by a hash of their first bytes, which are ciphertext. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, TLS_RECORDS_MAX);
    __type(key, __u64);
    __type(value, struct tls_stream_name);
} tls_records SEC(".maps");

/* Processes that write replies or calls into memory BIOs. User space attaches to BIO_write in these. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, TLS_BUFFERED_MAX);
    __type(key, __u32);
    __type(value, __u8);
} tls_buffered SEC(".maps");

/* What the programs at sockets know of a TLS connection, at its place among `connections`. */
struct tls_socket {
    struct tls_stream_name stream;                    /* what belongs to it; ssl 0: not known */
    __u64 arrival_ns[2], received_ns[2], receiver[2]; /* of the last two receives; the latest first */
    __u64 received;                                   /* bytes */
    bool is_other;                                    /* its text is no HTTP/1 */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, REQUEST_CONNECTIONS_MAX);
    __type(key, __u32);
    __type(value, struct tls_socket);
} tls_sockets SEC(".maps");

/* 1 for each process that has called an SSL object since it was attached to, by the low bits of its PID. */
volatile __u8 tls_processes[TLS_PIDS];

static __always_inline bool tls_is_process(__u32 pid)
{
    return tls_processes[table_index(pid, TLS_PIDS - 1)];
}

/* Written once for each process: all CPUs read this line. */
static __always_inline void tls_note_process(__u32 pid)
{
    if (!tls_is_process(pid))
        tls_processes[table_index(pid, TLS_PIDS - 1)] = 1;
}

static __always_inline __u64 tls_thread_start(void)
{
    if (has_task_registers)
        return bpf_get_current_task_btf()->start_time;
    return BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), start_time);
}

/* The call that the current thread has entered last and not left, as far as was seen; NULL: none. */
static __always_inline struct tls_call *tls_call_current(__u32 tid)
{
    struct tls_call *t = bpf_map_lookup_elem(&tls_calls, &tid);
    return t && t->ssl && t->thread_start_ns == tls_thread_start() ? t : NULL;
}

/* Whether code with this stack pointer is inside of the call. It is not if the thread has switched to the stack of a
 * coroutine. */
static __always_inline bool tls_is_inside(const struct tls_call *t, __u64 stack)
{
    return stack < t->stack && t->stack - stack < TLS_STACK_BYTES;
}

/* The call that a goroutine of this process has entered last; NULL: none. */
static __always_inline struct tls_call *tls_call_of_goroutine(__u64 address)
{
    const struct tls_goroutine key = {.address = address,
                                      .process = current_process_inline(bpf_get_current_pid_tgid() >> 32)};
    struct tls_call *t = bpf_map_lookup_elem(&tls_goroutines, &key);
    return t && t->ssl ? t : NULL;
}

/* Returns the TLS call that contains the current system call; NULL: it is in none. The call of a goroutine may have
 * ended: its stack, which moves when it grows, does not show that. */
static __always_inline struct tls_call *tls_call_of_syscall(__u32 tid)
{
    struct tls_call *t = tls_call_current(tid);
    if (!t && tls_has_go)
        t = tls_call_of_goroutine(syscall_goroutine());
    return t && (t->is_go || tls_is_inside(t, syscall_stack_pointer())) ? t : NULL;
}

/* Returns the object of the TLS call that contains this system call; 0: there is no such call, or it is one of Go,
 * where a receive does not show the object. Written so that the compiler does no arithmetic with the pointer. */
static __always_inline __u64 tls_object_of_syscall(__u32 tid)
{
    const struct tls_call *t = tls_call_of_syscall(tid);
    __u64 ssl = 0;
    if (t && !t->is_go)
        ssl = t->ssl;
    asm volatile("" : "+r"(ssl));
    return ssl;
}

static __always_inline struct tls_stream_name tls_name(__u64 ssl)
{
    return (struct tls_stream_name){.ssl = ssl, .process = current_process_inline(bpf_get_current_pid_tgid() >> 32)};
}

static __always_inline bool tls_is_named(const struct tls_stream_name *name, __u64 ssl)
{
    const struct tls_stream_name wanted = tls_name(ssl);
    return name->ssl == wanted.ssl && name->process == wanted.process;
}

/* What belongs to the socket; NULL: not known. */
static __always_inline struct tls_stream *tls_stream_of(const struct tls_socket *k)
{
    const struct tls_stream_name name = k->stream;
    return name.ssl ? bpf_map_lookup_elem(&tls_streams, &name) : NULL;
}

static __always_inline struct tls_socket *tls_socket_of(const struct request_connection *c)
{
    __u32 index = c->number - 1;
    return bpf_map_lookup_elem(&tls_sockets, &index);
}
