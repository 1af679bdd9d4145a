/* Resolves sampling rules (sampling_rules.h) to processes, users and cgroups of this machine, and keeps them in the
 * BPF map of rule keys. A PID means the process that had it at the start; users are looked up once; cgroups, including
 * cgroups of containers and pods, are searched every few seconds, because they come and go. Part of the
 * shared tables (tables/shared_tables.h); pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "sources/sampling/sampling_rules.h"

#include <stdbool.h>

struct sampling_rule_table;

/* Copies `rules` and fills the map. `sampling_rule_keys_fd` and `sampling_rule_counts_fd` are borrowed descriptors of
 * the BPF maps with these names, for as long as the table exists. A process, user or cgroup that does not exist is not
 * an error. The caller frees `*ret`. -ENOMEM, -ENODEV, or the error of writing the map. */
int sampling_rule_table_new(const struct sampling_rules *rules, int sampling_rule_keys_fd, int sampling_rule_counts_fd,
                            struct sampling_rule_table **ret);
void sampling_rule_table_free(struct sampling_rule_table *t);
DEFINE_FREEP(sampling_rule_table)

/* Replaces the rules, and refreshes the map. The statistics of all rules begin anew; pods have to be set again. */
void sampling_rule_table_replace(struct sampling_rule_table *t, const struct sampling_rules *rules);

/* Refreshes the map if it is due: once every few seconds of `now_ns` (CLOCK_MONOTONIC). A failure is repeated with the
 * next refresh. */
void sampling_rule_table_follow(struct sampling_rule_table *t, uint64_t now_ns);

#define SAMPLING_PODS_MAX           256 /* that all rules by name or label may match together: more than a node runs */
#define SAMPLING_RULE_POD_UID_BYTES 40

struct sampling_pod {
    uint32_t rule;
    char uid[SAMPLING_RULE_POD_UID_BYTES];
};

/* Sets the pods that SAMPLING_RULE_POD_NAME and SAMPLING_RULE_POD_LABEL match, which only the container runtime knows;
 * refreshes the map if they have changed. Copies at most SAMPLING_PODS_MAX, and ignores the rest. Pods are compared
 * bytewise: every byte of `pods` must be set. */
void sampling_rule_table_set_pods(struct sampling_rule_table *t, const struct sampling_pod *pods, size_t count);

struct sampling_rule_stats {
    bool found; /* exists on this machine as of the last refresh; always true for a command and for tasks without a rule
                 */
    uint64_t ticks, samples; /* clock ticks that hit its threads, and how many of them were sampled */
};

/* Statistics of the rule with this index, below the number of rules; SAMPLING_RULES_MAX: of tasks without a rule. Zeros
 * if they cannot be read. */
struct sampling_rule_stats sampling_rule_table_stats(const struct sampling_rule_table *t, uint32_t number);

/* Largest number of keys that did not fit at any refresh. */
uint64_t sampling_rule_table_left_out(const struct sampling_rule_table *t);
