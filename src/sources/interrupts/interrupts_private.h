/* The state of source "interrupts", and its metrics. Private to src/sources/interrupts. */
#pragma once

#include "sources/events/record_ring.h"
#include "sources/interrupts/interrupts.h"

#include <linux/types.h>

#include "probes/interrupts.h"

#define INTERRUPT_TRACEPOINTS 5 /* of vectors */

struct bpf_link;
struct interrupts_bpf;

struct interrupts_source {
    struct interrupts_bpf *bpf;
    struct bpf_link *links[2 * INTERRUPT_TRACEPOINTS]; /* NULL: this machine or kernel has no such tracepoint */
    const struct shared_tables *tables;
    struct record_ring ring;
    unsigned cpu_count; /* possible ones */
    bool is_started, is_shed;
};

/* The counters of all CPUs, added up. */
struct interrupts_cpu interrupts_sum(const struct interrupts_source *s);

void interrupts_put_metrics(const struct interrupts_source *s, struct metric_set *set);
