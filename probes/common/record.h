/* What every record on the wire begins with, and the list of all kinds.
 *
 * "The wire" is whatever crosses from the kernel to us: BPF ring buffers, and perf's side-band events once a source has
 * put them into a record of ours. The same bytes are what `--record-events` writes and `--replay` reads: a file of
 * records, each whole, little-endian, in order of time.
 *
 * Shared by BPF programs and user space: fixed widths only. Includes nothing, so that both sides can bring their own
 * types. */
#pragma once

enum record_kind {
    RECORD_CPU_SAMPLE = 1,     /* struct cpu_sample (cpu.h) */
    RECORD_OFF_CPU_STACK = 2,  /* struct cpu_sample (cpu.h): where a thread waits */
    RECORD_OFF_CPU = 3,        /* struct off_cpu_wait (offcpu.h): how long it did */
    RECORD_PYTHON_CODE = 4,    /* struct python_code (python.h): of code objects in the samples that follow */
    RECORD_OFF_CPU_WAKER = 5,  /* struct cpu_sample (cpu.h): who woke a thread (offcpu.h) */
    RECORD_EVENT = 6,          /* struct event_record (event.h): in files alone, of the CPU samples that follow */
    RECORD_HOTSPOT_METHOD = 7, /* struct hotspot_method (hotspot.h): of methods in the samples that follow */
    RECORD_V8_CODE = 8,        /* struct v8_code (v8.h): of functions in the samples that follow */
    RECORD_PROCESS_FORK = 16,  /* struct process_fork ... (process.h) */
    RECORD_PROCESS_EXEC = 17,
    RECORD_PROCESS_COMM = 18,
    RECORD_PROCESS_EXIT = 19,
    RECORD_PROCESS_MMAP = 20,
    RECORD_PROCESS_LOST = 21,  /* side-band events were lost: process state must be read again from /proc */
    RECORD_REQUEST = 32,       /* struct request_record (request.h) */
    RECORD_REQUEST_STACK = 33, /* struct cpu_sample (cpu.h): of a wait of a request */
};

struct record_header {
    __u32 size_bytes; /* of the whole record, this header included; a multiple of 8 */
    __u16 kind;       /* enum record_kind */
    __u16 reserved;
    __u64 time_ns; /* CLOCK_MONOTONIC; the moment the record speaks of */
    __u32 pid;     /* process (the kernel's tgid), in the initial PID namespace */
    __u32 tid;     /* thread (the kernel's pid) */
};
_Static_assert(sizeof(struct record_header) == 24, "wire format");

/* No record is larger: bound of every buffer that holds one. */
#define RECORD_MAX_BYTES (64 * 1024)
