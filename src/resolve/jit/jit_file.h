/* A file that a runtime writes of its code, read on as it grows: a perf map or a jitdump. Holds the ranges that the
 * file tells of, and where it has come to; a name is read when it is asked for. Bounded in all that it reads and keeps;
 * what it has forgotten it can read again. Pipeline thread only. */
#pragma once

#include "resolve/jit/code_ranges.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct remote_file;

enum jit_format { JIT_PERF_MAP, JIT_DUMP };

#define JIT_FILE_MAX_BYTES UINT32_MAX /* so that a place in it has 32 bits */

struct jit_file {
    enum jit_format format;
    int fd;                                   /* -1: not open */
    struct remote_file *far;                  /* of `fd`, where that is a socket */
    uint64_t device, inode, changed_ns, size; /* of a near file, when it was looked at last */
    uint64_t position;                        /* what lies before it has been taken in */
    char last[32]; /* what lies just before `position`: another file is told from one that has grown */
    size_t last_bytes;
    uint32_t pid; /* of a jitdump: whose it is */
    bool has_times;
    bool has_header, closed;
    uint64_t debug_address; /* jitdump_reading's, between two readings */
    uint64_t next_ns;
    uint32_t debug_place;
    bool is_whole; /* all that the file held has been taken in, up to the time asked for: what is not there, is nowhere
                    */
    struct code_ranges ranges;
    size_t cut_at;      /* some were forgotten because there was no room for more than so many; 0: none were */
    uint64_t forgotten; /* how often all was forgotten, to be read anew: places mean something else since */
    uint64_t bad;
};

/* Without a file. */
static inline struct jit_file jit_file_make(enum jit_format format)
{
    return (struct jit_file){.format = format, .fd = -1, .debug_address = UINT64_MAX};
}

/* Takes `fd`, near or far. What was read is kept if it is the same file. -ETIMEDOUT, -EIO: it cannot be read now. */
int jit_file_open(struct jit_file *f, int fd);
/* What was read is kept. */
void jit_file_close(struct jit_file *f);
/* ... and this forgets it, and which file it was. */
void jit_file_clear(struct jit_file *f);

/* Takes in what has come since, of a jitdump until `until_ns` (CLOCK_MONOTONIC), for at most `*budget` bytes, which are
 * taken off it. At most `ranges_max` ranges are kept; when there is room for twice as many, those that had to go are
 * read again. -EBADMSG, -ENOTSUP, -EFBIG: the file is not to be used, for good; -ETIMEDOUT: now. */
int jit_file_read(struct jit_file *f, uint64_t until_ns, size_t ranges_max, uint64_t *budget);

/* A file that was deleted, or replaced by another. Of a far one that cannot be told. */
bool jit_file_is_gone(const struct jit_file *f);

struct jit_text {
    char *name;       /* as the runtime writes it; in `room`, for jit_name_parse */
    const char *file; /* ""; in `room` */
    uint32_t line;
    char *room;
    size_t room_bytes; /* kept for the next */
};

/* The name of the code at `address`, which lies in `range`. -ENOENT: the file says so no more. */
int jit_file_describe(struct jit_file *f, const struct code_range *range, uint64_t address, struct jit_text *text);
