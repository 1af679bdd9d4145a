/* Whom to sample at another rate than the rest (profile.targets): a list of selectors in words, of which a thread answers to the first that
 * fits. Plain data; whom they are now is target_table.h's matter. */
#pragma once

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probes/target.h"

#define TARGET_VALUE_BYTES 384 /* paths of cgroups are long */
#define TARGET_NAME_BYTES  (TARGET_VALUE_BYTES + 16)
#define TARGET_HZ_MAX      1000

enum target_selector {
    TARGET_PID,
    TARGET_CGROUP,
    TARGET_CONTAINER,
    TARGET_POD,      /* by its UID */
    TARGET_POD_NAME, /* NAMESPACE/NAME; written as a pod, too */
    TARGET_POD_LABEL, /* KEY=VALUE */
    TARGET_COMMAND,
    TARGET_USER,
    TARGET_SELECTOR_COUNT
};

struct target {
    enum target_selector selector;
    char value[TARGET_VALUE_BYTES]; /* as it was written; never empty */
    uint32_t hz;                    /* 0: never */
};

struct targets {
    struct target list[TARGETS_MAX];
    size_t count;
};

/* "command=mlserver:99, user=backup:0"; "" is none. -EINVAL: there is an entry that is none, one too many or asks for whom another one has
 * asked for; it begins at *ret_bad, of *ret_bad_bytes. */
int targets_parse(const char *text, struct targets *ret, const char **ret_bad, size_t *ret_bad_bytes);

/* "command=mlserver". Returns `out`. */
const char *target_name(const struct target *t, char out[TARGET_NAME_BYTES]);

/* Whether there is anybody who is never to be sampled: a target, or all others. NULL: there is not. */
bool targets_leave_out(const struct targets *targets, uint32_t others_hz);

/* The rate at which the clock has to tick, where those who are no target are sampled at `others_hz`. NULL: there are no targets. */
uint32_t targets_clock_hz(const struct targets *targets, uint32_t others_hz);

/* Of TARGET_ALWAYS ticks of that clock, how many are taken, by target; the last: of who is none. */
void targets_shares(const struct targets *targets, uint32_t others_hz, uint64_t ret_shares[TARGETS_MAX + 1]);

/* Where waits of who is no target are told by chance if they are shorter than `others_ns`, and then stand for so much: what that is by target; the
 * last: of who is none. Who is sampled half as often has half as many records for the time that it waits. `max_ns`: it is no more, unless
 * others_ns is. Where others are not sampled, others_ns is that of the target that is sampled most often. */
void targets_sample_ns(const struct targets *targets, uint32_t others_hz, uint64_t others_ns, uint64_t max_ns, uint64_t ret_ns[TARGETS_MAX + 1]);
