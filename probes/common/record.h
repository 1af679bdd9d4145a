/* The header of every event record, and the list of all kinds.
 *
 * Event records are what crosses from the kernel to user space: through BPF ring buffers, and as perf side-band
 * records that a source has converted. `--record-events` writes the same bytes to a file and `--replay` reads them:
 * whole records, little-endian, in time order.
 *
 * Shared by BPF programs and user space: fixed-width types only. Includes nothing, because each side defines the types
 * itself. */
#pragma once

enum record_kind {
    RECORD_CPU_SAMPLE = 1,     /* struct stack_record (unwind/stack.h) */
    RECORD_OFF_CPU_STACK = 2,  /* struct stack_record (unwind/stack.h): where a thread waits */
    RECORD_OFF_CPU = 3,        /* struct off_cpu_wait (offcpu.h): for how long */
    RECORD_PYTHON_CODE = 4,    /* struct python_code (python.h): a code object in the following samples */
    RECORD_OFF_CPU_WAKER = 5,  /* struct stack_record (unwind/stack.h): the waker of a thread (offcpu.h) */
    RECORD_EVENT = 6,          /* struct event_record (event.h): in files only, for the CPU samples that follow */
    RECORD_HOTSPOT_METHOD = 7, /* struct hotspot_method (hotspot.h): a method in the following samples */
    RECORD_V8_CODE = 8,        /* struct v8_code (v8.h): a function in the following samples */
    RECORD_PROCESS_FORK = 16,  /* struct process_fork ... (process.h) */
    RECORD_PROCESS_EXEC = 17,
    RECORD_PROCESS_COMM = 18,
    RECORD_PROCESS_EXIT = 19,
    RECORD_PROCESS_MMAP = 20,
    RECORD_PROCESS_LOST = 21,  /* side-band records were lost: process state must be read again from /proc */
    RECORD_REQUEST = 32,       /* struct request_record (request.h) */
    RECORD_REQUEST_STACK = 33, /* struct stack_record (unwind/stack.h): of a wait of a request */
};

struct record_header {
    __u32 size_bytes; /* of the whole record, this header included; a multiple of 8 */
    __u16 kind;       /* enum record_kind */
    __u16 reserved;
    __u64 time_ns; /* CLOCK_MONOTONIC of the event */
    __u32 pid;     /* process (the kernel's tgid), in the initial PID namespace */
    __u32 tid;     /* thread (the kernel's pid) */
};
_Static_assert(sizeof(struct record_header) == 24, "wire format");

/* Maximum size of a record, and of every buffer that holds one. */
#define RECORD_MAX_BYTES (64 * 1024)
