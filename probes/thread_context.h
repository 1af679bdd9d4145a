/* Where a process's threads publish which traced request they work for: OpenTelemetry's OTEP 4947 ("Thread Context").
 * Each thread has a variable `otel_thread_ctx_v1`, a pointer to a record, NULL while it works for no request. User
 * space derives from the file how its code accesses that variable (src/resolve/elf/thread_context.c);
 * thread_context.bpf.h does the same when the thread is sampled. */
#pragma once

enum thread_context_kind {
    THREAD_CONTEXT_NONE,
    THREAD_CONTEXT_OFFSET,     /* at offset `place` from the thread pointer: defined by the executable */
    THREAD_CONTEXT_GOT_OFFSET, /* that offset is stored at the address `place` (initial exec) */
    THREAD_CONTEXT_DESCRIPTOR, /* a TLS descriptor is: a function, and an offset or the address of a pair */
    THREAD_CONTEXT_GOT_PAIR,   /* a pair is: the module's ID and the offset in its block (general dynamic) */
};

struct thread_context_place {
    __u64 place;
    __u32 kind;
    __u32 has_modules; /* the C library is glibc, whose table of TLS blocks (DTV) is known; otherwise pairs cannot be
                          resolved */
};

/* The OTEP's record up to the attributes. IDs are in W3C byte order. */
struct thread_context_record {
    __u64 trace_id[2], span_id;
    __u8 valid, flags;
    __u16 attributes_bytes;
    __u32 reserved; /* attributes begin here */
};

#define THREAD_CONTEXT_PROCESSES_MAX 1024
