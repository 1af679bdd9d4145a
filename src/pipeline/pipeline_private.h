/* The state of the pipeline, shared by pipeline.c (stages), pipeline_open.c, pipeline_resolvers.c, pipeline_stats.c and
 * process_events.c. */
#pragma once

#include "model/memory_plan.h"
#include "pipeline/pipeline.h"
#include "signals/cuda_activity.h"
#include "signals/process_threads.h"
#include "signals/signals.h"

#define MAPPED_MAX 256 /* per turn; further processes are published when they are sampled */

struct opened_signal {
    const struct signal *signal;
    void *source; /* state of signal->source; NULL: a replay, or it has no source */
    void *self;   /* what consumes its records; NULL: nothing does */
};

struct pipeline {
    struct pipeline_sink sink;

    struct task_filter filter;
    struct memory_plan memory;
    struct sampling_rules loaded_rules; /* the options' rules, which the programs were loaded for; empty: no rules */
    uint32_t sample_hz;
    struct shared_tables *tables;    /* NULL: a replay */
    struct signal_services services; /* what signals borrow */
    struct opened_signal opened[SIGNALS_MAX];
    size_t opened_count;
    struct batch *batch;
    size_t taken;                          /* how many records of the batch were taken; the next turn goes on there */
    struct recent_samples *recent_samples; /* NULL: no requests are wanted */
    struct recent_waits *recent_waits;     /* likewise */
    struct cuda_activity cuda_activity;
    struct process_threads *threads; /* NULL: no signal fills them */
    struct record_writer *record_events;
    int record_events_error; /* why recording stopped (disk full, ...); 0: it runs */
    struct record_reader *replay;
    struct sample_event *replayed_event; /* the event that was sampled; NULL: time */
    struct sample_type event_type;       /* of samples of an event; no name: CPU time is sampled */

    bool no_runtimes; /* source_services.no_runtimes */
    struct processes *processes;
    struct symbols *symbols;
    struct kernel_symbols *kernel;
    struct kernel_names *kernel_names; /* NULL: not supported by the kernel */
    struct unwind_cache *unwind_cache;
    struct interpreters *interpreters;
    struct jits *jits;
    struct sample_resolver *resolver;
    struct line_objects *line_objects;  /* NULL: no source lines requested */
    struct native_lines *native_lines;  /* NULL: a replay, no requests are wanted, or libdw is not installed */
    struct unwind_publisher *publisher; /* NULL in a replay */
    struct thread_contexts *contexts;   /* NULL in a replay, and without CPU samples and off-CPU samples */
    struct watched_processes *watched;  /* NULL: all are watched */
    struct pod_watch *pod_watch;        /* NULL in a replay, and without a CRI socket */
    uint32_t mapped[MAPPED_MAX];        /* processes that started or mapped code in this turn */
    size_t mapped_count;
    bool mapped_is_incomplete; /* there were more than MAPPED_MAX, or records were lost */

    uint64_t unfinished_turns; /* that left records to the next one */

    struct losses losses;          /* of the stages after the sources */
    uint64_t samples, waits_given; /* waits_given are part of samples */
};

/* Creates the resolvers. On failure returns -errno and leaves the pipeline to be freed. `cache_entries` as in the
 * options. */
int pipeline_make_resolvers(struct pipeline *p, size_t cache_entries);
/* Forks the helper process that opens files. Called before anything is attached, so that it inherits no kernel
 * objects. */
void pipeline_start_helper(struct pipeline *p, struct attach_report *report);
/* Forks the process whose children read source lines, likewise. */
void pipeline_start_lines(struct pipeline *p, struct attach_report *report);
/* Resolves kernel symbols through BPF. On failure they are read from /proc/kallsyms, as in a replay. */
void pipeline_ask_kernel_for_names(struct pipeline *p, struct attach_report *report);

/* Opens the wanted sources of the kernel; those that cannot attach are skipped. -errno if none attached, or if there
 * are too few file descriptors (logged). `report` is filled also on failure. */
int pipeline_open_kernel(struct pipeline *p, const struct pipeline_options *options, struct attach_report *report);
/* Opens the recording `path` instead. 0, or -errno after logging. */
int pipeline_open_replay(struct pipeline *p, const char *path);
