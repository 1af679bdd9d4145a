/* A file that is a JSON array whenever nobody is writing to it: each write begins on the closing bracket of
 * the last and ends with its own, in one system call. A write that fails is taken back, so that the array
 * closes where it did. Belongs to the writer's thread; only closing may happen elsewhere, when nobody can
 * write any more. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct trace_output {
    int fd;              /* -1: not open */
    unsigned generation; /* of the process that opened it (fork.h): a child must not write to its parent's file */
    dev_t device;
    ino_t inode;
    off_t size_bytes; /* of the array with its bracket */
    uint64_t index;   /* of a rotated file */
    uint32_t traces;  /* requests in it */
};

void trace_output_init(struct trace_output *o);
void trace_output_close(struct trace_output *o);

/* Opens `path` as a new file (or one that is empty). What is there is moved to PATH.old.1 (or .2, ...) when
 * `move_aside`; otherwise -EEXIST. -EBUSY: what is there belongs to a writer that lives. Also -errno of open
 * and rename. */
int trace_output_open(struct trace_output *o, const char *path, int move_aside);

/* Whether `path` still is this file, as long as we left it: not moved, deleted or changed by others. */
int trace_output_is_at(const struct trace_output *o, const char *path);

/* Appends objects, `{...},{...}`; of `traces` requests. -errno, and the file is as it was. A file that never
 * held anything is removed again then: nothing but whole arrays is left behind. */
int trace_output_append(struct trace_output *o, const char *path, const char *text, size_t size, uint32_t traces);
