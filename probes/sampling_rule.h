/* Sampling rules on the BPF side: the keys that find a task's rule, and the counters per rule. Shared by
 * common/sampling_rule.bpf.h and src/sources/sampling/sampling_rule_table.c. */
#pragma once

#include "probes/common/record.h"

#define SAMPLING_RULES_MAX     32   /* rules that a user may configure */
#define SAMPLING_RULE_SLOTS    64   /* a power of two, for all rules and the tasks without one */
#define SAMPLING_RULE_KEYS_MAX 1024 /* keys of all rules: a container or a pod may have several cgroups */
#define SAMPLING_RULE_ALWAYS   (1ULL << 32)

enum sampling_rule_key_kind {
    SAMPLING_RULE_KEY_PID,
    SAMPLING_RULE_KEY_USER,
    SAMPLING_RULE_KEY_COMMAND,
    SAMPLING_RULE_KEY_CGROUP
};

/* The value in the map is the index of the first rule with this key. */
struct sampling_rule_key {
    __u64 kind;
    union {
        char name[16]; /* zero-padded */
        __u64 number;  /* process, effective user or cgroup; the rest is 0 */
    };
};
_Static_assert(sizeof(struct sampling_rule_key) == 24, "no gaps, for keys are compared by their bytes");

/* Per rule and CPU; the last element (SAMPLING_RULES_MAX) is for tasks without a rule. */
struct sampling_rule_count {
    __u64 ticks;   /* clock ticks that hit one of its threads */
    __u64 samples; /* ticks that were sampled */
};
