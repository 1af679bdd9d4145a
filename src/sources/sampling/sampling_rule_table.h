/* Who the rules (sampling_rules.h) are on this machine now, kept in the table by which the kernel half finds them.
 * Processes are those that had their number at the beginning; users are looked up once; cgroups, of paths, containers
 * and pods, are looked for every few seconds, for they come and go. Owned by the source of CPU samples, or, where there
 * is none, of waits; pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "sources/sampling/sampling_rules.h"

#include <stdbool.h>

struct sampling_rule_table;

/* The descriptors are of the maps of these names, borrowed; -1 for the second: nothing is counted. That a process, a
 * user or a cgroup is not to be found is no error. */
int sampling_rule_table_new(const struct sampling_rules *rules, int sampling_rule_keys_fd, int sampling_rule_counts_fd,
                            struct sampling_rule_table **ret);
void sampling_rule_table_free(struct sampling_rule_table *t);
DEFINE_FREEP(sampling_rule_table)

/* Looks who they are, if it is time to. */
void sampling_rule_table_follow(struct sampling_rule_table *t, uint64_t now_ns);

#define SAMPLING_PODS_MAX           256 /* that rules by names and labels may mean together: more than a node has */
#define SAMPLING_RULE_POD_UID_BYTES 40

struct sampling_pod {
    uint32_t target;
    char uid[SAMPLING_RULE_POD_UID_BYTES];
};

/* Whom SAMPLING_RULE_POD_NAME and SAMPLING_RULE_POD_LABEL mean from now on, which only the container runtime knows;
 * looks at once who they are, if they are others than before. All bytes of `pods` are set. */
void sampling_rule_table_set_pods(struct sampling_rule_table *t, const struct sampling_pod *pods, size_t count);

struct sampling_rule_stats {
    bool found;              /* on this machine, as of the last look; of a command, and of who is none, always */
    uint64_t ticks, samples; /* of the clock that met its threads, and of which a sample was taken */
};

/* Of the target of this number; SAMPLING_RULES_MAX: of all who are none. */
struct sampling_rule_stats sampling_rule_table_stats(const struct sampling_rule_table *t, uint32_t number);

/* Cgroups and the like that found no room, at the worst look. */
uint64_t sampling_rule_table_left_out(const struct sampling_rule_table *t);

/* Bits of enum sampling_rule_key_kind that these may need. */
uint32_t sampling_rule_table_kinds(const struct sampling_rules *rules);
