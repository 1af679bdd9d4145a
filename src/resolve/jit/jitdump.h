/* A jitdump, which runtimes write of the code that they make
 * (linux/tools/perf/Documentation/jitdump-specification.txt): a header, then records with the time of what they tell. A
 * pure parser of what anybody may have written. */
#pragma once

#include "resolve/jit/code_ranges.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jitdump_header {
    uint32_t bytes; /* where the first record begins */
    uint32_t pid;   /* as its PID namespace has it */
    bool has_times; /* of CLOCK_MONOTONIC; else of the CPU's own clock, which cannot be compared with */
};

#define JITDUMP_HEADER_MAX 4096

/* -EBADMSG: that is no jitdump; -ENOTSUP: one of another byte order or architecture, or of a later version; -EAGAIN:
 * there is not all of it yet. */
int jitdump_header_parse(const void *data, size_t bytes, struct jitdump_header *ret);

struct jitdump_reading {
    uint64_t until_ns; /* what was told later than that is left for the next time */
    bool has_times;
    uint64_t debug_address; /* code that the record before told the lines of; UINT64_MAX: none */
    uint32_t debug_place;
    bool closed;      /* by its writer: nothing comes after that */
    uint64_t next_ns; /* when what comes next was told; 0: that is not known */
};

/* How much of a record has to be there for it to be taken in: without its name, lines and code. */
#define JITDUMP_PIECE_MIN 64

/* Takes in all records of a piece of the file that lies at `place`; those that make no sense are left out, and counted
 * in `*bad`. Returns how far the next one lies from the beginning of the piece, which may be behind its end. -EBADMSG:
 * the rest cannot be read; -ENOMEM. */
int64_t jitdump_take(struct code_ranges *ranges, struct jitdump_reading *reading, const void *data, size_t bytes,
                     uint32_t place, uint64_t *bad);

/* How many bytes there must be at the place of a range for jitdump_describe, told by the first of them. Bounded. */
size_t jitdump_described_bytes(const void *data, size_t bytes);

/* What is told of one range of code. Texts are borrowed from the piece, and NUL-terminated. */
struct jitdump_code {
    uint64_t start; /* when it was told; it may have been moved since */
    uint32_t size;
    const char *name;
    const char *file; /* of the instruction; "": not told */
    uint32_t line;
};

/* `data`: the piece of the file at the place of a range. `distance`: of the instruction from the range's beginning. V8
 * tells of lines as if 64 bytes stood before the code: `lines_add`. False: it is not there. */
bool jitdump_describe(const void *data, size_t bytes, uint64_t distance, uint64_t lines_add, struct jitdump_code *ret);
