/* What the source of waiting time has told, and what it has not; with source_off_cpu, which is opened by its name in
 * source.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sampling_rule_table;

struct off_cpu_totals {
    uint64_t told, told_ns;
    uint64_t short_count, short_ns; /* shorter than asked for */
    uint64_t left_out, left_out_ns; /* by chance: those told stand for them */
    uint64_t lost, lost_ns;         /* no room in the ring */
    uint64_t unknown;               /* of threads that are too many: nobody knows how long they were */
    uint64_t wakers_unseen;         /* told, and not who woke them, though that was asked for: the pipeline's count
                                       (pipeline_waits) */
};

struct off_cpu_totals off_cpu_source_stats(void *off_cpu_source);

/* Whether it has been started, and is not shed. */
bool off_cpu_source_is_looking(void *off_cpu_source);

/* Of every thread that has waited for a second or longer a record of its wait until now, by the next drains
 * (OFF_CPU_SO_FAR). Costs a walk over all tasks. */
int off_cpu_source_tell_so_far(void *off_cpu_source);

/* Who the rules are, where no other source has that. NULL: another one has, or there are no rules. */
struct sampling_rule_table *off_cpu_source_sampling_rules(void *off_cpu_source);

struct context_tables;

/* As cpu_source_contexts (cpu.h): its own, or whose it was opened with. */
struct context_tables off_cpu_source_contexts(const void *off_cpu_source);

/* As cpu_source_followed_fd (cpu.h). */
int off_cpu_source_followed_fd(void *off_cpu_source);
