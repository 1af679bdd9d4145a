/* Whom to sample at another rate than the rest (profile.sampling_rules): a list of selectors in words, of which a
 * thread answers to the first that fits. Plain data; whom they are now is sampling_rule_table.h's matter. */
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
    SAMPLING_RULE_POD_NAME,  /* NAMESPACE/NAME; written as a pod, too */
    SAMPLING_RULE_POD_LABEL, /* KEY=VALUE */
    SAMPLING_RULE_COMMAND,
    SAMPLING_RULE_USER,
    SAMPLING_RULE_SELECTOR_COUNT
};

struct sampling_rule {
    enum sampling_rule_selector selector;
    char value[SAMPLING_RULE_VALUE_BYTES]; /* as it was written; never empty */
    uint32_t hz;                           /* 0: never */
};

struct sampling_rules {
    struct sampling_rule list[SAMPLING_RULES_MAX];
    size_t count;
};

/* "command=mlserver:99, user=backup:0"; "" is none. -EINVAL: there is an entry that is none, one too many or asks for
 * whom another one has asked for; it begins at *ret_bad, of *ret_bad_bytes. */
int sampling_rules_parse(const char *text, struct sampling_rules *ret, const char **ret_bad, size_t *ret_bad_bytes);

/* "command=mlserver". Returns `out`. */
const char *sampling_rule_name(const struct sampling_rule *t, char out[SAMPLING_RULE_NAME_BYTES]);

/* Whether there is anybody who is never to be sampled: a target, or all others. NULL: there is not. */
bool sampling_rules_leave_out(const struct sampling_rules *rules, uint32_t others_hz);

/* The rate at which the clock has to tick, where those who are no target are sampled at `others_hz`. NULL: there are no
 * rules. */
uint32_t sampling_rules_clock_hz(const struct sampling_rules *rules, uint32_t others_hz);

/* Of SAMPLING_RULE_ALWAYS ticks of that clock, how many are taken, by target; the last: of who is none. */
void sampling_rules_shares(const struct sampling_rules *rules, uint32_t others_hz,
                           uint64_t ret_shares[SAMPLING_RULES_MAX + 1]);

/* Where waits of who is no target are told by chance if they are shorter than `others_ns`, and then stand for so much:
 * what that is by target; the last: of who is none. Who is sampled half as often has half as many records for the time
 * that it waits. `max_ns`: it is no more, unless others_ns is. Where others are not sampled, others_ns is that of the
 * target that is sampled most often. */
void sampling_rules_sample_ns(const struct sampling_rules *rules, uint32_t others_hz, uint64_t others_ns,
                              uint64_t max_ns, uint64_t ret_ns[SAMPLING_RULES_MAX + 1]);
