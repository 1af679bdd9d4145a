/* The source interface: one kernel signal (CPU samples, off-CPU waits, requests, ...), delivered as event records.
 * Each source is one implementation file, one entry in the array in sources.c and one test of the same name.
 *
 * Life cycle: open (load, attach by the best method that works, report it) -> start -> drain, drain, ... (-> stop ->
 * drain, ...) -> free. All calls come from the pipeline thread. */
#pragma once

#include "model/attach.h"
#include "model/loss.h"
#include "model/metric.h"
#include "model/profile.h"
#include "sources/events/batch.h"
#include "sources/tables/context_tables.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SOURCE_FILTER_MAX 64

struct sample_event;
struct sampling_rules;
struct unwind_tables;

/* What to record. Filters act in the kernel, before any unwinding. Borrowed during open. */
struct source_options {
    uint32_t sample_hz;                 /* CPU samples per second and CPU */
    const struct sampling_rules *rules; /* sampling rules for CPU samples and for waits sampled at random; NULL: one
                                           rate for all, always NULL with `event` */
    bool has_sampling_rule_keys;
    int sampling_rule_keys_fd;        /* rule key map owned by another source (sampling_rule_table.h) */
    const struct sample_event *event; /* what to sample instead of the CPU clock; NULL: the CPU clock */
    uint32_t pids[SOURCE_FILTER_MAX];
    size_t pid_count; /* 0: every process. Children of listed processes are followed. */
    uint64_t cgroup_ids[SOURCE_FILTER_MAX];
    size_t cgroup_count;
    char commands[SOURCE_FILTER_MAX][16];
    size_t command_count;
    uint32_t users[SOURCE_FILTER_MAX];
    size_t user_count;            /* effective user IDs, as seen in the initial user namespace */
    bool no_runtimes;             /* no monitored process runs Node or Java: their frame walkers are not loaded */
    bool skip_self;               /* exclude this process */
    size_t ring_bytes;            /* memory for records in flight, all CPUs together */
    size_t table_bytes;           /* limit for the unwind tables */
    struct unwind_tables *tables; /* unwind tables owned by another source; NULL: this source creates its own */
    bool has_contexts;
    struct context_tables contexts; /* context tables owned by another source */
    const struct sample_type *type; /* of the samples wanted; sample_type_wall: both; NULL: of `event` */
    uint64_t min_wait_ns;           /* shorter waits are counted but not recorded */
    uint64_t
        sample_wait_ns; /* shorter waits are recorded at random and weighted by this value; below 2^32; 0: record all */
    uint64_t
        sampling_seed; /* seed of random sampling (sampling.h), for reproducible tests; 0: the kernel's random source */
    bool wakers;       /* off-CPU: record which thread woke the sleeper */
    bool links;
    int links_fd; /* with `links`: the map of probes/link.h, which says in which traced request a thread is */
};

/* Level of detail of a source, in the order in which the budget sheds work (sonde-up(1)). Skipped work is counted as
 * LOSS_SHED or LOSS_REQUEST_NOT_DETAILED. */
enum source_detail {
    SOURCE_DETAIL_FULL,
    SOURCE_DETAIL_COUNTS, /* requests: counted, without latency breakdown; links: detached */
    SOURCE_DETAIL_HALF,   /* cpu: half the sampling rate */
    SOURCE_DETAIL_LEAST,  /* cpu: a quarter of the sampling rate, no stack copies for unwinding in user space; requests:
                             detached */
};

/* Takes one CPU sample in this many, weighted by the same factor. */
static inline unsigned source_detail_samples_every(enum source_detail detail)
{
    return detail == SOURCE_DETAIL_LEAST ? 4 : detail == SOURCE_DETAIL_HALF ? 2 : 1;
}

struct source {
    const char *name; /* "cpu", "process", "request" */
    const char *help;

    /* Loads and attaches. Returns a negative errno (-EPERM, ...) when no method works; the entry in `report` says why.
     */
    int (*open)(const struct source_options *options, struct attach_report *report, void **ret_self);
    int (*start)(void *self);

    /* Replaces source_options.cgroup_ids, for sources opened with at least one. May be NULL. */
    int (*set_cgroups)(void *self, const uint64_t *ids, size_t count);

    /* Flushes in-flight records, which the next drains return; nothing new is recorded from here on. May be NULL. */
    int (*stop)(void *self);

    /* Writes up to `max` file descriptors that become readable when a drain is worthwhile; returns how many. */
    size_t (*poll_fds)(void *self, int *ret_fds, size_t max);

    /* Appends all available records without blocking. Records that do not fit the batch count as LOSS_RING_FULL. */
    int (*drain)(void *self, struct batch *batch);

    /* Adds the losses since open to `losses`. */
    void (*losses)(void *self, struct losses *losses);
    /* Adds the source's own statistics (BPF run time per program, map memory) as sonde_self_*. May be NULL. */
    void (*metrics)(void *self, struct metric_set *set);
    size_t (*memory_bytes)(void *self); /* kernel memory held: maps and rings */
    /* Nanoseconds spent in its BPF programs since open, as far as the kernel counted them (BPF_ENABLE_STATS). May be
     * NULL. */
    uint64_t (*run_time_ns)(void *self);
    /* Switches to this level of detail. NULL: the source cannot shed work. */
    int (*shed)(void *self, enum source_detail detail);
    void (*free)(void *self);
};

extern const struct source source_cpu, source_link, source_off_cpu, source_process, source_request;

/* All sources, NULL-terminated, in the order in which they are opened and drained (see sources.c). */
extern const struct source *const sources[];
