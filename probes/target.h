/* Whom the clock samples at a rate of their own: the keys by which the kernel half finds a task's target, and what it counts of each.
 * Shared by target.bpf.h and src/sources/sampling/target_table.c. */
#pragma once

#include "probes/common/wire.h"

#define TARGETS_MAX     32   /* entries that somebody may write */
#define TARGET_SLOTS    64   /* a power of two that has room for these and for who is none */
#define TARGET_KEYS_MAX 1024 /* what they stand for: a container or a pod may have several cgroups */
#define TARGET_ALWAYS   (1ULL << 32)

enum target_key_kind { TARGET_KEY_PID, TARGET_KEY_USER, TARGET_KEY_COMMAND, TARGET_KEY_CGROUP };

/* Its value in the table: the number of the first target that asks for it. */
struct target_key {
    __u64 kind;
    union {
        char name[16]; /* the rest is 0 */
        __u64 number;  /* process, effective user, cgroup; the rest is 0 */
    };
};
_Static_assert(sizeof(struct target_key) == 24, "no gaps, for keys are compared by their bytes");

/* By target, the last (TARGETS_MAX) of who is none; a CPU's share each. */
struct target_count {
    __u64 ticks;   /* of the clock that met one of its threads */
    __u64 samples; /* of which a sample was taken */
};
