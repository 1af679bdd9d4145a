/* What the pipeline consists of; shared by the order of its stages (pipeline.c) and what it tells of itself
 * (pipeline_stats.c). */
#pragma once

#include "agent/pipeline.h"

#define SOURCES_MAX 8
#define MAPPED_MAX  256 /* more in one turn are published when they are sampled */

struct pipeline {
    struct pipeline_sink sink;

    struct {
        const struct source *source;
        void *self;
    } opened[SOURCES_MAX];
    size_t opened_count;
    struct batch *batch;
    struct record_writer *record_events;
    int record_events_error; /* its disk is full, or the like: nothing more is written there */
    struct record_reader *replay;
    struct sample_event *replayed_event; /* what its samples are of; NULL: of time */

    bool no_runtimes; /* source_options.no_runtimes */
    struct processes *processes;
    struct symbols *symbols;
    struct kernel_symbols *kernel;
    struct kernel_names *kernel_names; /* NULL: the kernel cannot be asked */
    struct unwind_cache *unwind_cache;
    struct interpreters *interpreters;
    struct jits *jits;
    struct sample_resolver *resolver;
    struct line_objects *line_objects;  /* NULL: nobody asks for source lines */
    struct wait_stacks *wait_stacks;    /* that came ahead of their requests */
    struct wait_samples *waits;         /* of off-CPU profiles */
    struct unwind_publisher *publisher; /* NULL in a replay */
    struct thread_contexts *contexts;   /* NULL in a replay, and where neither CPU samples nor waits are taken */
    struct watched_processes *watched;  /* NULL: all are */
    struct trace_links *links;          /* NULL: not asked for, or the kernel cannot */
    struct pod_watch *pod_watch;        /* NULL in a replay, and where nobody is to be asked */
    uint32_t mapped[MAPPED_MAX];        /* processes that began or mapped code in this turn */
    size_t mapped_count;
    bool mapped_is_incomplete; /* there were more, or records were lost */

    struct losses losses;          /* of the stages after the sources */
    uint64_t samples, waits_given; /* the latter are among them */
};

/* Of an -errno the pipeline is left as it is, to be freed. `cache_entries` as in the options. */
int pipeline_make_resolvers(struct pipeline *p, uint64_t memory_bytes, size_t cache_entries);
/* Before anything is attached: what it is forked from holds nothing of the kernel's yet. */
void pipeline_start_helper(struct pipeline *p, struct attach_report *report);
/* Where it fails, kernel symbols are read from /proc/kallsyms, as in a replay. */
void pipeline_ask_kernel_for_names(struct pipeline *p, struct attach_report *report);

/* The opened source; NULL: it is not. */
void *pipeline_opened(const struct pipeline *p, const struct source *source);
