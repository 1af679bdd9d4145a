/* A file that is a valid JSON array except during a write: each write overwrites the closing bracket of the last and
 * appends its own, in one system call. A failed write is undone, so that the array stays closed. Used by the writer
 * thread only; closing may happen elsewhere, once no thread writes any more. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct trace_output {
    int fd;              /* -1: not open */
    unsigned generation; /* of the process that opened it (fork.h): a child must not write to its parent's file */
    dev_t device;
    ino_t inode;
    off_t size_bytes; /* of the array including its closing bracket */
    uint64_t index;   /* of a rotated file */
    uint32_t traces;  /* requests in it */
};

void trace_output_init(struct trace_output *o);
void trace_output_close(struct trace_output *o);

/* Opens `path` as a new or empty file. An existing file is renamed to PATH.old.1 (or .2, ...) if `move_aside`;
 * otherwise -EEXIST. -EBUSY: a running writer owns the existing file. Also -errno of open and rename. */
int trace_output_open(struct trace_output *o, const char *path, int move_aside);

/* Whether `path` is still this file as last written: not moved, deleted or modified by others. */
int trace_output_is_at(const struct trace_output *o, const char *path);

/* Appends the objects `{...},{...}` of `traces` requests. On failure returns -errno, and the file is unchanged; a
 * file that was still empty is removed. */
int trace_output_append(struct trace_output *o, const char *path, const char *text, size_t size, uint32_t traces);
