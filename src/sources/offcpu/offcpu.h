/* The off-CPU source (source_off_cpu in source.h): its statistics and what other sources share with it. Pipeline
 * thread only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sampling_rule_table;

struct off_cpu_totals {
    uint64_t recorded, recorded_ns;
    uint64_t short_count, short_ns; /* shorter than source_options.min_wait_ns */
    uint64_t left_out, left_out_ns; /* by random sampling; the recorded waits are weighted for these */
    uint64_t lost, lost_ns;         /* ring full */
    uint64_t unknown;               /* thread table full: their length is unknown */
    uint64_t wakers_unseen;         /* recorded without the requested waker; counted by the pipeline (pipeline_waits) */
};

/* Totals since open; wakers_unseen is left 0. */
struct off_cpu_totals off_cpu_source_stats(void *off_cpu_source);

/* Whether it is started and not shed. */
bool off_cpu_source_is_enabled(void *off_cpu_source);

/* Writes, for every thread that has waited for a second or longer, a record of its wait so far (OFF_CPU_SO_FAR); the
 * next drains return them. Walks all tasks. Does nothing while disabled. */
int off_cpu_source_flush_waits(void *off_cpu_source);

/* Its own sampling rule table. NULL: another source owns the table, or there are no rules. */
struct sampling_rule_table *off_cpu_source_sampling_rules(void *off_cpu_source);

struct context_tables;

/* As cpu_source_contexts (cpu.h): its own tables, or those it was opened with. */
struct context_tables off_cpu_source_contexts(const void *off_cpu_source);

/* As cpu_source_followed_fd (cpu.h). */
int off_cpu_source_followed_fd(void *off_cpu_source);
