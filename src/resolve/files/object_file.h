/* Opens the file behind a mapping by any path that still reaches it, and verifies that it is that file. Stateless. */
#pragma once

#include "resolve/elf/go_labels.h"
#include "resolve/elf/thread_context.h"
#include "resolve/files/local_mounts.h"
#include "resolve/files/object_sight.h"

/* The identity that an open file reports. */
struct object_identity {
    uint64_t device, inode;
    uint64_t generation; /* 0: the file system does not report one */
    /* The size, and when the file's content or inode last changed: of two files with the same inode number, one after
     * the other, at least the second differs. */
    uint64_t size_bytes, changed_ns;
    uint8_t build_id[OBJECT_BUILD_ID_MAX];
    size_t build_id_bytes;
    bool is_elf;
    uint64_t digest; /* elf_digest: distinguishes a file from another one that claims its build ID */
    struct thread_context_symbol thread_context; /* kind THREAD_CONTEXT_NONE: it has none */
    struct go_labels_file go_labels;             /* kind GO_LABELS_NONE: not a Go program */
    bool is_remote;                              /* remote: its file system may block a reader; see file_opener.h */
    uint64_t mount_id;                           /* 0: unknown */
};

/* A descriptor for reading, by /proc/PID/map_files, /proc/PID/root and the plain path, in this order. Only a regular
 * file that matches the sight's identity is returned. -ENOENT: none does. */
int object_file_open(const struct object_sight *sight, struct object_identity *ret);

/* The same, where this waits for no one: by the plain path, if the sight's process has our own mount namespace
 * (`own_view`), the kernel has the path in its cache of names, and the file is on one of the mounts. -ENOENT: the file
 * has been deleted or replaced, and the process, which did not share its mappings (`by_exec`), has ended. -EAGAIN:
 * otherwise. */
int object_file_open_at_once(const struct object_sight *sight, uint64_t own_view, struct local_mounts *mounts,
                             struct object_identity *ret);

/* Where the file lies that the sight's path leads to, by the same conditions; which file it is, is not read. -EAGAIN:
 * otherwise. */
struct object_place {
    uint64_t device, inode;
};
int object_file_place_at_once(const struct object_sight *sight, uint64_t own_view, struct local_mounts *mounts,
                              struct object_place *ret);

/* Another regular file, by its path in the mount namespace of a sight's processes. */
int object_file_open_in_process_root(const struct object_sight *sight, const char *path);

/* The same, in our own mount namespace. */
int object_file_open_in_own_root(const char *path);

/* A memfd with a copy of the vDSO, which is the same in all 64-bit processes; -ENOENT on machines without one. */
int object_file_open_vdso(struct object_identity *ret);

/* The ID of the mount that an open file lies on; 0: unknown. Asks no file system. */
uint64_t object_file_mount(int fd);

/* Reads the identity of an open file; false when it is not a regular file. */
bool object_file_identify(int fd, struct object_identity *ret);
