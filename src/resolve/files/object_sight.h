/* A sight: what a mapping says about the file that it maps, enough to find and to recognise that file. Plain data. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OBJECT_BUILD_ID_MAX 64
#define OBJECT_PIDS_MAX     8

/* Filled from an event record or from /proc/PID/maps. Pointers are borrowed. */
struct object_sight {
    const char *path; /* as the process sees it, without " (deleted)" */
    const uint8_t *build_id;
    size_t build_id_bytes; /* 0: unknown */
    uint64_t device;       /* makedev(); unknown when inode is 0 */
    uint64_t inode;
    uint64_t generation; /* 0: unknown */
    uint64_t view;       /* the mount namespace of the process; 0: unknown */
    uint64_t start, end; /* of the mapping */
    bool by_maps;        /* read from /proc/PID/maps just now: the mapping exists */
    bool by_exec;        /* the process has executed its program itself: ancestors do not have the same mappings */
    /* Processes in whose mount namespace the file is looked up: the process itself, then its ancestors, which
     * usually share its view of the file system and may outlive it. */
    uint32_t pids[OBJECT_PIDS_MAX];
    size_t pid_count;
};
