/* Executable files by identity: build id, else device, inode and generation. One object for all processes
 * that map the file, wherever they see it; kept while anyone holds it. It is opened once, early (through
 * /proc/PID/root, the parents of a process that has gone, or the plain path, and checked against its
 * identity), so that deleted and replaced files come out right. A file whose file system may not answer is
 * opened and read by a helper process (file_opener.h). Pipeline thread only, but for object_*. */
#pragma once

#include "base/cleanup.h"

#include <linux/types.h>

#include "probes/process.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct go_labels_file;
struct thread_context_symbol;

struct object {
    uint64_t id;          /* unique in this run; never used again */
    const char *path;     /* as first seen; who maps it now may name it otherwise (struct process_mapping) */
    const char *build_id; /* hexadecimal; "" when the file has none */
    bool is_vdso, is_anonymous;
    const struct thread_context_symbol *thread_context; /* NULL: none, or the file was not opened yet */
    const struct go_labels_file *go_labels;             /* likewise */
    unsigned references;                                /* private */
};

/* A descriptor for elf_open, for the caller to close, or -errno (-ENOENT: could not be opened when it was
 * seen; -EAGAIN: too many descriptors; -ETIMEDOUT: its file system does not answer, or rests). The vdso is
 * given as a memfd. */
int object_open(const struct object *o);

/* Whether such an error, or one of reading the file, may be gone in a moment. */
static inline bool object_error_is_passing(int error)
{
    return error == -EAGAIN || error == -ETIMEDOUT || error == -ENOMEM;
}

/* Its file was opened and did not answer while it was read: object_open says so for a while, longer each time that it
 * is read in vain after a rest. */
void object_unreadable(const struct object *o);

/* A descriptor of another regular file, by its path as the processes that map the object see it (in a
 * container, say); -ENOENT when none of them lives. Whose file it is, is for the caller to check. */
int object_open_beside(const struct object *o, const char *path);
/* ... and as we see it. */
int object_open_ours(const struct object *o, const char *path);

struct object *object_ref(struct object *o);
struct object *object_unref(struct object *o); /* returns NULL */
