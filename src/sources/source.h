/* A source: one signal of the kernel, brought to the wire. One file an implementation, one line in sources.c's literal
 * array, one test of the same name.
 *
 * Life: open (load, attach by the best method that really attaches, report it) -> start -> drain, drain, ... (-> stop
 * -> drain, ...) -> free. All calls come from the pipeline's thread. */
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

/* What to look at. Filters act in the kernel, before anything is unwound. Borrowed during open. */
struct source_options {
    uint32_t sample_hz;                 /* CPU samples a second and CPU */
    const struct sampling_rules *rules; /* whose CPU samples, and waits that are told by chance, come at another rate;
                                             NULL: nobody's, as of events */
    bool has_sampling_rule_keys;
    int sampling_rule_keys_fd;        /* the kernel's table of who they are, of another source (target.h) */
    const struct sample_event *event; /* samples are of this and not of the clock; NULL: of the clock */
    uint32_t pids[SOURCE_FILTER_MAX];
    size_t pid_count; /* 0: every process. Children of these are followed. */
    uint64_t cgroup_ids[SOURCE_FILTER_MAX];
    size_t cgroup_count;
    char commands[SOURCE_FILTER_MAX][16];
    size_t command_count;
    uint32_t users[SOURCE_FILTER_MAX];
    size_t user_count;            /* effective, as the first user namespace counts them */
    bool no_runtimes;             /* nobody who is looked at has a Node or a Java: what walks these is left out */
    bool skip_self;               /* leave out this very process */
    size_t ring_bytes;            /* memory for records on their way to us, all CPUs together */
    size_t table_bytes;           /* bound of unwinding tables */
    struct unwind_tables *tables; /* of another source, to walk by: NULL: it has its own */
    bool has_contexts;
    struct context_tables contexts; /* of another source, likewise */
    enum profile_time time;         /* of what kind of it samples are wanted */
    uint64_t min_wait_ns;           /* shorter waits are counted and not told */
    uint64_t sample_wait_ns; /* shorter waits are taken by chance, and stand for so much; below 2^32, 0: all are told */
    uint64_t sampling_seed;  /* what random sampling takes follows from it (sampling.h), for tests; 0: from the kernel's
                                random source */
    bool wakers;             /* of waits: who woke the thread, too */
    bool links;
    int links_fd; /* whether to say which traced request it was in, and the table of link.h that tells */
};

/* How much a source sees, in the order in which the budget sheds (sonde-up(1)). What is left out is counted as
 * LOSS_SHED or LOSS_REQUEST_NOT_DETAILED. */
enum source_detail {
    SOURCE_DETAIL_FULL,
    SOURCE_DETAIL_COUNTS, /* requests: counted, none taken apart; links: detached */
    SOURCE_DETAIL_HALF,   /* cpu: half the rate */
    SOURCE_DETAIL_LEAST,  /* cpu: a quarter of the rate, no stacks are copied for finishing in user space; requests:
                             detached */
};

/* One CPU sample in so many is taken; it stands for all of them. */
static inline unsigned source_detail_samples_every(enum source_detail detail)
{
    return detail == SOURCE_DETAIL_LEAST ? 4 : detail == SOURCE_DETAIL_HALF ? 2 : 1;
}

struct source {
    const char *name; /* "cpu", "process", "request" */
    const char *help; /* one line */

    /* -EPERM and the like when no method could be attached: the entry in `report` says why. */
    int (*open)(const struct source_options *options, struct attach_report *report, void **ret_self);
    int (*start)(void *self);

    /* From now on what source_options.cgroup_ids said is this; for sources that were opened with some. May be NULL. */
    int (*set_cgroups)(void *self, const uint64_t *ids, size_t count);

    /* What is under way is told as far as it has come, by the next drains; from here on nothing new is looked at. May
     * be NULL. */
    int (*stop)(void *self);

    /* File descriptors that become readable when a drain is worth it; returns how many. */
    size_t (*poll_fds)(void *self, int *ret_fds, size_t max);

    /* Appends everything that is there now; never waits. A full batch is counted as LOSS_RING_FULL. */
    int (*drain)(void *self, struct batch *batch);

    /* Adds what was lost since open. */
    void (*losses)(void *self, struct losses *losses);
    /* Own figures (BPF run time by program, map memory), sonde_self_*. May be NULL. */
    void (*metrics)(void *self, struct metric_set *set);
    size_t (*memory_bytes)(void *self); /* kernel memory held: maps and rings */
    /* Nanoseconds that its BPF programs have run since open, as far as the kernel counted them (BPF_ENABLE_STATS). May
     * be NULL. */
    uint64_t (*run_time_ns)(void *self);
    /* Works at less detail from now on, or at more again. NULL: cannot. */
    int (*shed)(void *self, enum source_detail detail);
    void (*free)(void *self);
};

extern const struct source source_cpu, source_link, source_off_cpu, source_process, source_request;

/* All sources, ended by NULL, in the order in which they are drained: those that others depend on come last. */
extern const struct source *const sources[];
