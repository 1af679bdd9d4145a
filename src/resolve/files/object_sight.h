/* What a mapping says of the file that it maps: enough to find that file, and to recognise it. Plain data. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OBJECT_BUILD_ID_MAX 64
#define OBJECT_PIDS_MAX     8

/* What a mapping tells of its file, from a wire record or from /proc/PID/maps. Borrowed. */
struct object_sight {
    const char *path; /* as the process sees it, without " (deleted)" */
    const uint8_t *build_id;
    size_t build_id_bytes; /* 0: not told */
    uint64_t device;       /* makedev(); inode 0: not told */
    uint64_t inode;
    uint64_t generation; /* 0: not told */
    uint64_t view;       /* the mount namespace of the process; 0: not known */
    uint64_t start, end; /* of the mapping */
    bool by_maps;        /* told by /proc/PID/maps just now: the mapping exists */
    /* Through whose eyes to look for the file: the process itself, then its ancestors, who share its view of
     * the file system when it has gone. */
    uint32_t pids[OBJECT_PIDS_MAX];
    size_t pid_count;
};
