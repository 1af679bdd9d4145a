/* A pure parser of /proc/PID/mountinfo; nothing is copied. See proc_pid_mountinfo(5). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOUNTS_MAX_BYTES (4u << 20) /* of the whole file */

struct mounts_text { /* not NUL-terminated; borrowed from the file's text */
    const char *at;
    size_t size;
};

struct mount {
    uint64_t id;
    struct mounts_text point;   /* as the kernel writes it: blanks are "\040" */
    struct mounts_text type;    /* "ext4", "cgroup2" */
    struct mounts_text options; /* of the file system ("rw,memory"), not of the mount */
};

/* Parses the next line of `*text` (NUL-terminated) and advances it; malformed lines are skipped. False at the end. */
bool mounts_next(const char **text, struct mount *ret);

bool mounts_text_is(const struct mounts_text *text, const char *wanted);
/* True when `word` is one of the options. */
bool mounts_has_option(const struct mount *mount, const char *word);

/* The ID of the mount that `path` (absolute, without symbolic links) lies on; 0: none. */
uint64_t mounts_find(const char *text, const char *path);
