/* The BPF maps that the programs of several signals share (probes/tables.bpf.c): filters, sampling rules, unwind
 * tables, contexts, emitted code, links, the flight recorder. Owned by the pipeline, which creates them before it opens
 * any source and frees them after the last one. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/loss.h"
#include "model/metric.h"
#include "model/task_filter.h"
#include "sources/tables/context_tables.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_map;
struct bpf_object;
struct flight_recorder;
struct sampling_rule_table;
struct sampling_rules;
struct shared_tables;
struct unwind_tables;

struct shared_tables_options {
    const struct task_filter *filter;
    const struct sampling_rules *rules; /* NULL: one rate for all */
    size_t unwind_bytes;                /* limit for the unwind tables; 0: no program unwinds stacks */
    bool links;                         /* threads are linked to traced requests */
    uint64_t recorder_bytes;            /* for the flight recorder's rings, all CPUs together; 0: no recorder */
};

/* Creates the maps that these options need. If the kernel refuses, `*ret` is valid all the same, and every use of its
 * maps returns the kernel's error, so that each source reports it; if it refuses only the flight recorder, that is
 * missing. Otherwise -ENOMEM and the like. The options are copied. The caller frees `*ret`, after all objects that use
 * it. */
int shared_tables_new(const struct shared_tables_options *options, struct shared_tables **ret);
void shared_tables_free(struct shared_tables *t);
DEFINE_FREEP(shared_tables)

/* Before `of` is loaded: replaces its shared maps (by name) by the maps of `t`; maps that `t` has not created are
 * not created for `of` either, as no program of it may use them. */
int shared_tables_use(const struct shared_tables *t, struct bpf_object *of);
/* Whether `map`, of an object that uses the tables, belongs to them, so that its memory is not the object's. */
bool shared_tables_own(const struct shared_tables *t, const struct bpf_map *map);
/* Kernel memory of the maps of `of` that do not belong to the tables. */
size_t shared_tables_bytes_beside(const struct shared_tables *t, const struct bpf_object *of);

/* The parts; NULL: not wanted, or refused. */
struct unwind_tables *shared_tables_unwind(const struct shared_tables *t);
struct sampling_rule_table *shared_tables_sampling_rules(const struct shared_tables *t);
struct flight_recorder *shared_tables_recorder(const struct shared_tables *t);
/* False: not wanted, or refused. */
bool shared_tables_contexts(const struct shared_tables *t, struct context_tables *ret);
/* Whether the flight recorder's programs can record tasks (RECORDER_TASK). */
bool shared_tables_has_tasks(const struct shared_tables *t);
/* The program of the CPU source that also takes samples of page faults (probes/cpu.bpf.c), for events that other
 * sources open: a borrowed descriptor; negative: no program was set. */
void shared_tables_set_sampler(struct shared_tables *t, int program_fd);
int shared_tables_sampler_fd(const struct shared_tables *t);
/* Borrowed descriptor of the map of monitored processes and their descendants; negative: all processes are. */
int shared_tables_followed_fd(const struct shared_tables *t);
/* Borrowed descriptor of the map of linked threads (probes/link.h); negative: there are no links. */
int shared_tables_links_fd(const struct shared_tables *t);

/* Once a turn: brings the sampling rules up to date. */
void shared_tables_follow(struct shared_tables *t, uint64_t now_ns);
/* Replaces the cgroups of the filter, which must have had one: otherwise there is no map for them. -ENOSPC: more than
 * the map holds; some are then missing. */
int shared_tables_set_cgroups(struct shared_tables *t, const uint64_t *ids, size_t count);
/* Makes the programs write the record of this code object again when they next meet it. `code`, `check`: as in the
 * sample that refers to it (struct missing_code). Does nothing where there is no such map. */
void shared_tables_reemit(const struct shared_tables *t, uint32_t pid, uint64_t code, uint32_t check);

void shared_tables_losses(const struct shared_tables *t, struct losses *losses);
void shared_tables_metrics(const struct shared_tables *t, struct metric_set *set);
/* Kernel memory held. */
size_t shared_tables_bytes(const struct shared_tables *t);
