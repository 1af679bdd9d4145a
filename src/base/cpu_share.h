/* A share of one CPU for work that can wait: a token bucket of CPU time. Work may begin while time is saved up, and its
 * cost is known only when it is done: a long piece of work uses time in advance, and the next one waits for it. Plain
 * data, without a thread or a clock of its own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cpu_share {
    double of_cpu;     /* CPU time for each unit of wall time; 0: unlimited */
    uint64_t burst_ns; /* at most this much is saved up */

    /* private */
    double saved_ns; /* below 0: used in advance */
    uint64_t refilled_ns;
};

/* Begins with `burst_ns` saved up. */
void cpu_share_init(struct cpu_share *s, double of_cpu, uint64_t burst_ns, uint64_t now_ns);

/* Whether work may begin now. */
bool cpu_share_allows(struct cpu_share *s, uint64_t now_ns);

/* Whether at least half of `burst_ns` is saved up, as of the last cpu_share_allows. */
bool cpu_share_is_plentiful(const struct cpu_share *s);

/* Work has used this much CPU time. */
void cpu_share_spend(struct cpu_share *s, uint64_t cpu_ns);

/* Without a bucket: how long work rests after a piece that used `cpu_ns`, so that it uses one part in `parts` of a CPU
 * at most; at least `least_ns`. */
uint64_t cpu_share_rest_ns(uint64_t cpu_ns, unsigned parts, uint64_t least_ns);
