/* The source interface: one kernel signal (CPU samples, off-CPU waits, requests, ...), delivered as event records.
 * A source is the kernel side of a signal (signals/signal.h).
 *
 * Life cycle: open (load, attach by the best method that works, report it) -> start -> drain, drain, ... (-> stop ->
 * drain, ...) -> free. All calls come from the pipeline thread. */
#pragma once

#include "model/attach.h"
#include "model/loss.h"
#include "model/metric.h"
#include "model/task_filter.h"
#include "sources/events/batch.h"
#include "sources/tables/shared_tables.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sample_event;
struct sampling_rules;

/* What all sources share. Owned by the pipeline; borrowed during open, `tables` until the source is freed. */
struct source_services {
    struct shared_tables *tables;       /* NULL: for sources that use none */
    const struct task_filter *filter;   /* acts in the kernel, before any unwinding */
    size_t ring_bytes;                  /* memory for records in flight, all CPUs together */
    size_t table_bytes;                 /* limit for tables that can be smaller; 0: none */
    uint32_t sample_hz;                 /* CPU samples per second and CPU */
    const struct sampling_rules *rules; /* for CPU samples and for waits sampled at random; NULL: one rate for all,
                                           always NULL with `event` */
    const struct sample_event *event;   /* what to sample instead of the CPU clock; NULL: the CPU clock */
    uint64_t sampling_seed; /* of random sampling (sampling.h), for reproducible tests; 0: the kernel's random source */
    bool wants_callers;     /* requests are exported as spans, which have the caller's trace */
    bool no_runtimes;       /* no monitored process runs Node or Java: their frame walkers are not loaded */
};

/* Level of detail, in the order of shedding by the budget (sonde-up(1)). A level keeps the reductions of the
 * levels before it. Requests are counted, and the slowest recorded, at all levels. Samples that are left out count as
 * LOSS_SHED.
 */
enum source_detail {
    SOURCE_DETAIL_FULL,
    SOURCE_DETAIL_NO_WAIT_STACKS, /* waits, link: detached */
    SOURCE_DETAIL_HALF_RATE,      /* cpu: half the sampling rate; oom: no page faults */
    SOURCE_DETAIL_QUARTER_RATE,   /* cpu: a quarter of it, no stack copies for unwinding in user space */
    SOURCE_DETAIL_NO_OFF_CPU,     /* offcpu, runqueue, slow_calls: disabled; interrupts, cuda: detached */
    SOURCE_DETAIL_SLOWEST_PATHS,  /* request: critical paths of the slowest requests of each route only */
    SOURCE_DETAIL_LEAST,          /* request: no critical paths; recorder: detached; io: disabled */
};

/* The output of a source or signal from a level of detail on, until its next entry: its levels that shed work,
 * in words for users. The entry of SOURCE_DETAIL_FULL comes first; a list ends with `what` NULL. */
struct source_level {
    enum source_detail from;
    const char *what; /* "CPU samples at half the rate" */
};

/* Takes one CPU sample in this many, weighted by the same factor. */
static inline unsigned source_detail_samples_every(enum source_detail detail)
{
    return detail >= SOURCE_DETAIL_QUARTER_RATE ? 4 : detail >= SOURCE_DETAIL_HALF_RATE ? 2 : 1;
}

/* Functions that are not described as optional must be there: name, help, open, start, drain, losses, free. */
struct source {
    const char *name; /* "cpu", "process", "request" */
    const char *help;

    /* Loads and attaches. `options` are the source's own, of the type that its header states; NULL: it has none.
     * Returns a negative errno (-EPERM, ...) when no method works; the entry in `report` says why. */
    int (*open)(const struct source_services *services, const void *options, struct attach_report *report,
                void **ret_self);
    /* Records from here on. 0, or -errno: the source can only be freed. */
    int (*start)(void *self);

    /* Flushes in-flight records, which the next drains return; nothing new is recorded from here on. -errno: some
     * in-flight records are lost. May be NULL. */
    int (*stop)(void *self);

    /* Writes up to `max` file descriptors that become readable when a drain is worthwhile; returns how many. May be
     * NULL: it is drained a few times a second. */
    size_t (*poll_fds)(void *self, int *ret_fds, size_t max);

    /* Appends all available records without blocking. Records that do not fit the batch count as LOSS_RING_FULL.
     * Between batch_begin and batch_end. 0; -errno: the source is broken, and the run ends. */
    int (*drain)(void *self, struct batch *batch);

    /* Adds the losses since open to `losses`. */
    void (*losses)(void *self, struct losses *losses);
    /* Writes records of waits and operations in progress: their time so far. The next drains return them, and a
     * later record has the rest. NULL: this source has none in progress. */
    int (*flush)(void *self);
    /* Whether it records now: started, and not disabled by the budget. NULL: always. */
    bool (*is_enabled)(void *self);
    /* How many waits, requests, ... it has recorded since open, without those that sampling skips. NULL: not counted.
     */
    uint64_t (*recorded)(void *self);

    /* Adds the source's own statistics (BPF run time per program, map memory) as sonde_self_*. May be NULL. */
    void (*metrics)(void *self, struct metric_set *set);
    size_t (*memory_bytes)(void *self); /* kernel memory held: maps and rings, without the shared tables; may be NULL */
    uint64_t (*helper_cpu_ns)(void *self); /* CPU time of its helper process; NULL: it has none */
    /* Nanoseconds spent in its BPF programs since open, as far as the kernel counted them (BPF_ENABLE_STATS). May be
     * NULL. */
    uint64_t (*run_time_ns)(void *self);
    const struct source_level *levels; /* NULL: the source sheds nothing, and nothing about it is reported */
    /* Switches to this level of detail. 0 or -errno. NULL: the source cannot shed work. */
    int (*shed)(void *self, enum source_detail detail);
    /* Applies other sampling rules from now on (sampling_rules_can_replace). NULL: it does not know the rules. */
    void (*set_rules)(void *self, const struct sampling_rules *rules);
    void (*free)(void *self); /* detaches; started or not */
};

/* Adds what every source's metrics have: runs of one of its BPF programs, and the CPU time spent in them. */
void source_put_runs(struct metric_set *set, const char *program, uint64_t runs, uint64_t run_time_ns);
