/* Opening the file behind a mapping, wherever it can still be reached, and making sure that it is that file.
 * Stateless. */
#pragma once

#include "resolve/elf/go_labels.h"
#include "resolve/elf/thread_context.h"
#include "resolve/files/object_sight.h"

/* What a file says of itself. */
struct object_identity {
    uint64_t device, inode;
    uint64_t generation; /* 0: the file system does not tell */
    uint8_t build_id[OBJECT_BUILD_ID_MAX];
    size_t build_id_bytes;
    bool is_elf;
    uint64_t digest; /* elf_digest: tells a file from another one that claims its build id */
    struct thread_context_symbol thread_context; /* kind THREAD_CONTEXT_NONE: it has none */
    struct go_labels_file go_labels;             /* kind GO_LABELS_NONE: it is not Go's */
    bool is_far;                                 /* its file system may keep a reader waiting: see file_opener.h */
    uint64_t mount_id;                           /* 0: not known */
};

/* A descriptor for reading, by /proc/PID/map_files, /proc/PID/root and the plain path, in this order; only of
 * a regular file that matches the sight's identity. -ENOENT: none. */
int object_file_open(const struct object_sight *sight, struct object_identity *ret);

/* Another regular file, by its path as the processes of a sight see it. */
int object_file_open_beside(const struct object_sight *sight, const char *path);

/* The same, as we see it. */
int object_file_open_ours(const char *path);

/* A memfd with a copy of the vdso, which is the same in all 64-bit processes; -ENOENT on machines without
 * one. */
int object_file_open_vdso(struct object_identity *ret);

/* Reads the identity of an open file; false when it is not a regular file. */
bool object_file_identify(int fd, struct object_identity *ret);
