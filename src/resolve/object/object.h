/* Executable files by identity: build ID, else device, inode and generation. All processes that map a file share one
 * object, whatever path they use. An object exists as long as it is referenced. Its file is opened once, early (by
 * /proc/PID/root, through the ancestors of an exited process, or by the plain path) and its identity is verified, so
 * deleted and replaced files are resolved correctly. A file whose file system may block is opened and read by the
 * file helper (file_opener.h). Pipeline thread only, except object_*, which any thread may call. */
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
    uint64_t id;          /* unique in this run; never reused */
    const char *path;     /* the path first seen; each mapping has its own (struct process_mapping) */
    const char *build_id; /* hexadecimal; "" when the file has none */
    bool is_vdso, is_anonymous;
    const struct thread_context_symbol *thread_context; /* NULL: none, or the file was never opened */
    const struct go_labels_file *go_labels;             /* likewise */
    unsigned references;                                /* private */
};

/* A descriptor for elf_open, which the caller closes, or -errno. -ENOENT: the file could not be opened when it was
 * seen; -EAGAIN: too many descriptors; -ETIMEDOUT: its file system does not respond or is backed off. For the vDSO a
 * memfd is returned. */
int object_open(const struct object *o);

/* True when such an error, or one of reading the file, is temporary. */
static inline bool object_error_is_passing(int error)
{
    return error == -EAGAIN || error == -ETIMEDOUT || error == -ENOMEM;
}

/* Reports that the file was opened but a read timed out. object_open then fails with -ETIMEDOUT for a while; that
 * backoff doubles each time. */
void object_unreadable(const struct object *o);

/* A descriptor of another regular file, by its path in the mount namespace of the processes that map the object;
 * -ENOENT when none of them exists. The caller verifies that it is the right file. */
int object_open_in_process_root(const struct object *o, const char *path);
/* The same, in our own mount namespace. */
int object_open_in_own_root(const struct object *o, const char *path);

/* Keep an object valid after no process maps it any more, and after objects_free. `o` must be valid already. */
struct object *object_ref(struct object *o);   /* returns `o` */
struct object *object_unref(struct object *o); /* returns NULL; accepts NULL */
