/* Applies sampling rules, before any unwinding. The clock ticks at the highest rate of all rules; for each task a
 * share of the ticks is sampled at random, so that it cannot synchronize with a program's period. A sample's value is
 * scaled so that sums are correct. No state is kept per task: name, user and cgroup are those at the tick. */
#pragma once

#include "probes/common/sampling.bpf.h"
#include "probes/common/sampling_rule_tables.bpf.h"
#include "probes/common/task_filter.bpf.h"

const volatile __u32 sampling_rule_kinds = 0; /* bit set of enum sampling_rule_key_kind; 0: no rules */

/* Sampled ticks out of SAMPLING_RULE_ALWAYS, by rule; the last used element is for tasks without a rule. User space
 * changes them when it replaces the rules. */
volatile __u64 sampling_rule_shares[SAMPLING_RULE_SLOTS] = {};

static __always_inline __u32 sampling_rule_earlier(const struct sampling_rule_key *key, __u32 than)
{
    __u32 *rule = bpf_map_lookup_elem(&sampling_rule_keys, key);

    return rule && *rule < than ? *rule : than;
}

/* The first matching rule, in configured order. Not inlined, because the walk needs the BPF stack. */
static __noinline __u32 sampling_rule_of(struct task_struct *task, __u32 pid)
{
    struct sampling_rule_key key = {.kind = SAMPLING_RULE_KEY_PID};
    __u32 first = SAMPLING_RULES_MAX;

    if (sampling_rule_kinds & 1 << SAMPLING_RULE_KEY_PID) {
        key.number = pid;
        first = sampling_rule_earlier(&key, first);
    }
    if (sampling_rule_kinds & 1 << SAMPLING_RULE_KEY_USER) {
        key.kind = SAMPLING_RULE_KEY_USER;
        key.number = BPF_CORE_READ(task, real_cred, euid.val);
        first = sampling_rule_earlier(&key, first);
    }
    if (sampling_rule_kinds & 1 << SAMPLING_RULE_KEY_CGROUP) {
        struct cgroup *cgroup = cgroup_of(task);

        key.kind = SAMPLING_RULE_KEY_CGROUP;
        for (int level = 0; level < CGROUP_LEVELS_MAX && cgroup; level++) {
            key.number = cgroup_id(cgroup);
            first = sampling_rule_earlier(&key, first);
            cgroup = cgroup_parent(cgroup);
        }
    }
    if (sampling_rule_kinds & 1 << SAMPLING_RULE_KEY_COMMAND) {
        key.kind = SAMPLING_RULE_KEY_COMMAND;
        __builtin_memset(key.name, 0, sizeof(key.name));
        BPF_CORE_READ_STR_INTO(&key.name, task, comm);
        first = sampling_rule_earlier(&key, first);
        __builtin_memset(key.name, 0, sizeof(key.name));
        BPF_CORE_READ_STR_INTO(&key.name, task, group_leader, comm);
        first = sampling_rule_earlier(&key, first);
    }
    return first;
}

/* Whether the task is excluded from sampling. */
static __always_inline bool sampling_rule_is_never(struct task_struct *task)
{
    __u32 rule = sampling_rule_kinds ? sampling_rule_of(task, BPF_CORE_READ(task, tgid)) : SAMPLING_RULES_MAX;

    UNWIND_SAME_REGISTER(rule);
    return sampling_rule_kinds && sampling_rule_shares[rule & (SAMPLING_RULE_SLOTS - 1)] == 0;
}

/* Whether this tick is sampled; scales `*value` by the inverse of the rule's share. */
static __always_inline bool sampling_rule_takes(__u64 *value)
{
    __u32 rule = sampling_rule_of((struct task_struct *)bpf_get_current_task(), bpf_get_current_pid_tgid() >> 32);
    struct sampling_rule_count *count;
    __u64 share;

    count = bpf_map_lookup_elem(&sampling_rule_counts, &rule);
    if (!count)
        return false;
    UNWIND_SAME_REGISTER(rule);
    share = sampling_rule_shares[rule & (SAMPLING_RULE_SLOTS - 1)];
    count->ticks++;
    if (sampling_random(count->ticks) >= share) /* the key is unique per rule and CPU */
        return false;
    count->samples++;
    *value = (*value * SAMPLING_RULE_ALWAYS) / share;
    return true;
}
