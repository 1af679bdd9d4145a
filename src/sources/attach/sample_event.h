/* What samples are taken of: an event's name taken apart, what its weights are, and how often one is taken. Plain data;
 * asks nobody, so that it says nothing of whether this machine has the event. */
#pragma once

#include "sources/attach/user_probe.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_record;
struct perf_event_attr;

enum sample_event_kind {
    SAMPLE_EVENT_SOFTWARE, /* counted by the kernel */
    SAMPLE_EVENT_HARDWARE, /* counted by the CPU, where it has such a counter */
    SAMPLE_EVENT_TRACEPOINT,
    SAMPLE_EVENT_USER_PROBE, /* USDT */
    SAMPLE_EVENT_MMAP,       /* bytes of address space asked for, each call */
    SAMPLE_EVENT_BRK,
};

#define SAMPLE_EVENT_NAME_MAX 128 /* of each part of a name, with its end */

struct sample_event {
    enum sample_event_kind kind;
    char name[2 * SAMPLE_EVENT_NAME_MAX]; /* what the weights are: "page-faults", "sched:sched_switch", "mmap" */
    const char *unit;                     /* ... in "count" or "bytes" */
    uint64_t period;                      /* events that a sample stands for; 0: it stands for its own bytes */
    uint32_t perf_type;                   /* perf_event_open(2)'s, of a counted one */
    uint64_t perf_config;
    char group[SAMPLE_EVENT_NAME_MAX];   /* of a tracepoint: its subsystem; of a probe: its provider */
    char member[SAMPLE_EVENT_NAME_MAX];  /* the tracepoint's, the probe's own name */
    char path[PATH_MAX];                 /* of a probe's file; "": not said */
    const struct user_probe_site *sites; /* where a probe is: put there by who found it, and borrowed */
    size_t site_count;
};

/* -EINVAL: no event has such a name. -ENAMETOOLONG. `period` is that of one who did not say any. */
int sample_event_parse(const char *name, struct sample_event *ret);
/* What a recorded wire tells of it (probes/event.h), with its header; and back, without what it takes to have such
 * samples taken. */
void sample_event_to_record(const struct sample_event *e, struct event_record *ret);
void sample_event_from_record(const struct event_record *record, struct sample_event *ret);
bool sample_event_record_is_sound(const struct event_record *record);
/* One after another what such a name may be, in words; NULL behind the last. */
const char *sample_event_form(size_t i);

static inline bool sample_event_is_counted(const struct sample_event *e)
{
    return e->kind == SAMPLE_EVENT_SOFTWARE || e->kind == SAMPLE_EVENT_HARDWARE;
}

/* For perf_event_open(2), of one that is counted. */
void sample_event_attr(const struct sample_event *e, struct perf_event_attr *ret);
/* Whether it can be counted here: 0, or -errno (-ENOENT, -EOPNOTSUPP and the like: no). */
int sample_event_try(const struct sample_event *e);
