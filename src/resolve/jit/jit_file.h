/* A perf map or a jitdump, read incrementally as it grows. Holds the address ranges that the file describes, and the
 * read position; a name is read from the file when it is needed. All reads and all memory are bounded; evicted ranges
 * can be read again. Pipeline thread only. */
#pragma once

#include "resolve/jit/code_ranges.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct remote_file;

enum jit_format { JIT_PERF_MAP, JIT_DUMP };

#define JIT_FILE_MAX_BYTES UINT32_MAX /* offsets in it are 32 bits wide */

struct jit_file {
    enum jit_format format;
    int fd;                     /* -1: not open */
    struct remote_file *remote; /* set if `fd` is a socket to the file helper */
    uint64_t device, inode, changed_ns,
        size;          /* of a local file, at the last check; size: also of a remote file, when it was opened */
    uint64_t position; /* everything before this offset has been parsed */
    char last[32]; /* the bytes just before `position`; they detect a file that was rewritten rather than appended to */
    size_t last_bytes;
    uint32_t pid; /* of a jitdump: PID of its writer, in the writer's PID namespace */
    bool has_times;
    bool has_header, closed;
    uint64_t debug_address; /* jitdump_reading.debug_address between two reads */
    uint64_t next_ns;
    uint32_t debug_place;
    bool is_whole; /* the file has been parsed completely, up to the time requested: an address absent from `ranges` has
                      no name */
    struct code_ranges ranges;
    size_t cut_at;      /* the range limit when ranges were evicted; 0: none were evicted */
    uint64_t forgotten; /* how often all ranges were dropped, to be read again; file offsets are not comparable across
                           such a drop */
    uint64_t bad;       /* malformed lines or records */
};

/* A jit_file that is not open. */
static inline struct jit_file jit_file_make(enum jit_format format)
{
    return (struct jit_file){.format = format, .fd = -1, .debug_address = UINT64_MAX};
}

/* Opens `fd`, a local file or a socket to the file helper; takes ownership. Parsed ranges are kept if it is the same
 * file. -ETIMEDOUT, -EIO: it cannot be read at present. */
int jit_file_open(struct jit_file *f, int fd);
/* Closes the file; parsed ranges are kept. */
void jit_file_close(struct jit_file *f);
/* Closes the file, and drops the ranges and the file's identity. */
void jit_file_clear(struct jit_file *f);

/* Parses the bytes appended since, at most `*budget` bytes, which is reduced by the bytes read; of a jitdump, records
 * up to `until_ns` (CLOCK_MONOTONIC). Keeps at most `ranges_max` ranges; when the limit is later at least twice as
 * high, evicted ranges are read again. -EBADMSG, -ENOTSUP, -EFBIG: the file is unusable; -ETIMEDOUT: it cannot be read
 * at present. */
int jit_file_read(struct jit_file *f, uint64_t until_ns, size_t ranges_max, uint64_t *budget);

/* Whether the file was deleted or replaced by another one. Always false for a remote file, whose state is unknown. */
bool jit_file_is_gone(const struct jit_file *f);

struct jit_text {
    char *name;       /* as the runtime writes it; points into `buffer`, for jit_name_parse */
    const char *file; /* "" if unknown; points into `buffer` */
    uint32_t line;
    char *buffer;
    size_t buffer_bytes; /* reused by the next call */
};

/* Reads the name of the code at `address`, which `range` must contain. -ENOENT: the file no longer describes it. */
int jit_file_describe(struct jit_file *f, const struct code_range *range, uint64_t address, struct jit_text *text);
