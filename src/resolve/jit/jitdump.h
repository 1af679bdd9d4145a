/* Parser of jitdumps: runtimes record their JIT code in them
 * (linux/tools/perf/Documentation/jitdump-specification.txt): a header, then timestamped records. Pure; the input is
 * untrusted. */
#pragma once

#include "resolve/jit/code_ranges.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jitdump_header {
    uint32_t bytes; /* size of the header: offset of the first record */
    uint32_t pid;   /* in the writer's PID namespace */
    bool has_times; /* timestamps are CLOCK_MONOTONIC; otherwise they are architectural (TSC) and not comparable */
};

#define JITDUMP_HEADER_MAX 4096

/* -EBADMSG: not a jitdump. -ENOTSUP: another byte order, architecture or version. -EAGAIN: not completely written yet.
 */
int jitdump_header_parse(const void *data, size_t bytes, struct jitdump_header *ret);

/* State between two calls of jitdump_take. */
struct jitdump_reading {
    uint64_t until_ns; /* input: records with a later timestamp are left for the next call */
    bool has_times;
    uint64_t debug_address; /* address of the code that the last debug info record describes; UINT64_MAX: none */
    uint32_t debug_place;   /* file offset of that record */
    bool closed;            /* the writer has closed the file: no records follow */
    uint64_t next_ns;       /* timestamp of the first record left; 0: unknown */
};

/* The bytes of a record that must be available to process it: everything but its name, lines and code. */
#define JITDUMP_PIECE_MIN 64

/* Adds all records of a piece of the file at offset `place` to `ranges`. Malformed records are skipped and counted in
 * `*bad`. Returns the distance from the piece's start to the next record, which may be beyond the piece's end.
 * -EBADMSG: the rest cannot be parsed; -ENOMEM. */
int64_t jitdump_take(struct code_ranges *ranges, struct jitdump_reading *reading, const void *data, size_t bytes,
                     uint32_t place, uint64_t *bad);

/* How many bytes at a range's file offset jitdump_describe needs, derived from the first `bytes` bytes. Bounded. */
size_t jitdump_described_bytes(const void *data, size_t bytes);

/* Description of one range of code. Strings are NUL-terminated and borrowed from the piece. */
struct jitdump_code {
    uint64_t start; /* as recorded; the code may have been moved since */
    uint32_t size;
    const char *name;
    const char *file; /* source file of the instruction; "": unknown */
    uint32_t line;
};

/* `data`: the file's bytes at the range's file offset. `distance`: of the instruction from the start of the range.
 * `lines_add`: added to it for the line lookup, because V8's line addresses include a 64-byte ELF header. False: `data`
 * does not describe the range. */
bool jitdump_describe(const void *data, size_t bytes, uint64_t distance, uint64_t lines_add, struct jitdump_code *ret);
