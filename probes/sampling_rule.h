/* Whom the clock samples at a rate of their own: the keys by which the kernel half finds a task's target, and what it
 * counts of each. Shared by target.bpf.h and src/sources/sampling/sampling_rule_table.c. */
#pragma once

#include "probes/common/record.h"

#define SAMPLING_RULES_MAX     32   /* entries that somebody may write */
#define SAMPLING_RULE_SLOTS    64   /* a power of two that has room for these and for who is none */
#define SAMPLING_RULE_KEYS_MAX 1024 /* what they stand for: a container or a pod may have several cgroups */
#define SAMPLING_RULE_ALWAYS   (1ULL << 32)

enum sampling_rule_key_kind {
    SAMPLING_RULE_KEY_PID,
    SAMPLING_RULE_KEY_USER,
    SAMPLING_RULE_KEY_COMMAND,
    SAMPLING_RULE_KEY_CGROUP
};

/* Its value in the table: the number of the first target that asks for it. */
struct sampling_rule_key {
    __u64 kind;
    union {
        char name[16]; /* the rest is 0 */
        __u64 number;  /* process, effective user, cgroup; the rest is 0 */
    };
};
_Static_assert(sizeof(struct sampling_rule_key) == 24, "no gaps, for keys are compared by their bytes");

/* By target, the last (SAMPLING_RULES_MAX) of who is none; a CPU's share each. */
struct sampling_rule_count {
    __u64 ticks;   /* of the clock that met one of its threads */
    __u64 samples; /* of which a sample was taken */
};
