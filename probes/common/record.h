/* The header of every event record.
 *
 * Event records are what crosses from the kernel to user space: through BPF ring buffers, and as perf side-band
 * records that a source has converted. `--record-events` writes the same bytes to a file and `--replay` reads them:
 * whole records, little-endian, in time order.
 *
 * The header of each signal numbers the kinds of its records, below 65536. A number is never used again, because
 * recordings keep it; tests/unit/signals/test_signals.c fails where two kinds have the same.
 *
 * Shared by BPF programs and user space: fixed-width types only. Includes nothing, because each side defines the types
 * itself. */
#pragma once

struct record_header {
    __u32 size_bytes; /* of the whole record, this header included; a multiple of 8 */
    __u16 kind;       /* RECORD_... */
    __u16 reserved;
    __u64 time_ns; /* CLOCK_MONOTONIC of the event */
    __u32 pid;     /* process (the kernel's tgid), in the initial PID namespace */
    __u32 tid;     /* thread (the kernel's pid) */
};
_Static_assert(sizeof(struct record_header) == 24, "wire format");

/* Maximum size of a record, and of every buffer that holds one. */
#define RECORD_MAX_BYTES (64 * 1024)
