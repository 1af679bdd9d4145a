/* Sampling rules (profile.sampling_rules): threads matched by a selector are sampled at a rate of their own. The first
 * matching rule applies. Plain data; sampling_rule_table.h resolves the rules on this machine. */
#pragma once

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probes/sampling_rule.h"

#define SAMPLING_RULE_VALUE_BYTES 384 /* paths of cgroups are long */
#define SAMPLING_RULE_NAME_BYTES  (SAMPLING_RULE_VALUE_BYTES + 16)
#define SAMPLING_RULE_HZ_MAX      1000

enum sampling_rule_selector {
    SAMPLING_RULE_PID,
    SAMPLING_RULE_CGROUP,
    SAMPLING_RULE_CONTAINER,
    SAMPLING_RULE_POD,       /* by its UID */
    SAMPLING_RULE_POD_NAME,  /* NAMESPACE/NAME, also written with the selector "pod" */
    SAMPLING_RULE_POD_LABEL, /* KEY=VALUE */
    SAMPLING_RULE_COMMAND,
    SAMPLING_RULE_USER,
    SAMPLING_RULE_SELECTOR_COUNT
};

struct sampling_rule {
    enum sampling_rule_selector selector;
    char value[SAMPLING_RULE_VALUE_BYTES]; /* as written; never empty */
    uint32_t hz;                           /* 0: not sampled */
};

struct sampling_rules {
    struct sampling_rule list[SAMPLING_RULES_MAX];
    size_t count;
};

/* Parses "command=mlserver:99, user=backup:0"; "" yields no rules. -EINVAL: an entry is invalid, exceeds the maximum
 * or repeats a selector and value; `*ret_bad` points to it in `text`, `*ret_bad_bytes` long. */
int sampling_rules_parse(const char *text, struct sampling_rules *ret, const char **ret_bad, size_t *ret_bad_bytes);

/* Formats the rule as "command=mlserver". Returns `out`. */
const char *sampling_rule_name(const struct sampling_rule *t, char out[SAMPLING_RULE_NAME_BYTES]);

/* Whether some tasks are never sampled: the tasks of a rule, or tasks without a rule. `rules` may be NULL: false. */
bool sampling_rules_leave_out(const struct sampling_rules *rules, uint32_t others_hz);

/* Bit set of the enum sampling_rule_key_kind values that these rules need. */
uint32_t sampling_rules_kinds(const struct sampling_rules *rules);

/* The rate of the sampling clock: the highest of all rules and of `others_hz`, the rate of tasks without a rule.
 * `rules` may be NULL. */
uint32_t sampling_rules_clock_hz(const struct sampling_rules *rules, uint32_t others_hz);

/* For each rule, how many of SAMPLING_RULE_ALWAYS ticks of a clock of `clock_hz` are sampled; the last element is for
 * tasks without a rule. No rate is above `clock_hz`. */
void sampling_rules_shares(const struct sampling_rules *rules, uint32_t others_hz, uint32_t clock_hz,
                           uint64_t ret_shares[SAMPLING_RULES_MAX + 1]);

/* Whether the programs that were loaded for the rules `loaded` can apply `next`: they look up only the kinds of
 * selectors that `loaded` has, tick at its highest rate, and test whether a task is excluded only if `loaded` excludes
 * some. */
bool sampling_rules_can_replace(const struct sampling_rules *loaded, const struct sampling_rules *next,
                                uint32_t others_hz);

/* The random-sampling threshold of waits per rule. Waits of tasks without a rule that are shorter than `others_ns` are
 * recorded at random and weighted by `others_ns`; a rule with half their rate gets twice the threshold, hence half as
 * many records for the same time. The last element is for tasks without a rule. Thresholds are capped at `max_ns`, or
 * at `others_ns` if that is larger. If `others_hz` is 0, `others_ns` applies to the rule with the highest rate. */
void sampling_rules_sample_ns(const struct sampling_rules *rules, uint32_t others_hz, uint64_t others_ns,
                              uint64_t max_ns, uint64_t ret_ns[SAMPLING_RULES_MAX + 1]);
