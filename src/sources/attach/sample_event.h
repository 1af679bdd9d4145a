/* The sampled event: its parsed name, the unit of its value and its period. Plain data; parsing does not check
 * whether this machine has the event. */
#pragma once

#include "sources/attach/user_probe.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_record;
struct perf_event_attr;

enum sample_event_kind {
    SAMPLE_EVENT_SOFTWARE,
    SAMPLE_EVENT_HARDWARE, /* counted by the CPU's PMU */
    SAMPLE_EVENT_TRACEPOINT,
    SAMPLE_EVENT_USER_PROBE, /* USDT */
    SAMPLE_EVENT_MMAP,       /* bytes of address space requested by each call */
    SAMPLE_EVENT_BRK,
    SAMPLE_EVENT_GPU, /* launches on a GPU, and what libsonde-cuda reports of them (probes/gpu_time.h) */
};

#define SAMPLE_EVENT_NAME_MAX 128 /* of each component of a name, including the NUL */

struct sample_event {
    enum sample_event_kind kind;
    char name[2 * SAMPLE_EVENT_NAME_MAX]; /* the value's name: "page-faults", "sched:sched_switch", "mmap" */
    const char *unit;                     /* "count", "bytes" or "nanoseconds" */
    uint64_t period;                      /* events per sample; 0: the sample carries its own number of units */
    uint32_t perf_type;                   /* perf_event_open(2) type and config of a counted event */
    uint64_t perf_config;
    char group[SAMPLE_EVENT_NAME_MAX];   /* tracepoint: subsystem; USDT: provider */
    char member[SAMPLE_EVENT_NAME_MAX];  /* name of the tracepoint or probe */
    char path[PATH_MAX];                 /* file of a USDT probe; "": not specified */
    const struct user_probe_site *sites; /* probe addresses, set by the caller and borrowed; GPU: of launches */
    size_t site_count;
    const struct user_probe_site *record_sites; /* GPU: of the probe that reports records */
    size_t record_site_count;
};

/* Parses `name`. -EINVAL: not an event name; -ENAMETOOLONG. Sets the default period. */
int sample_event_parse(const char *name, struct sample_event *ret);
/* The event of `sonde record --gpu`. */
void sample_event_gpu(struct sample_event *ret);

/* Converts to and from the event record of a recording (probes/event.h), header included. The record does not contain
 * the fields for attaching. */
void sample_event_to_record(const struct sample_event *e, struct event_record *ret);
void sample_event_from_record(const struct event_record *record, struct sample_event *ret);
bool sample_event_record_is_sound(const struct event_record *record);
/* The i-th accepted form of a name, for help texts; NULL past the last. */
const char *sample_event_form(size_t i);

static inline bool sample_event_is_counted(const struct sample_event *e)
{
    return e->kind == SAMPLE_EVENT_SOFTWARE || e->kind == SAMPLE_EVENT_HARDWARE;
}

/* Fills the perf_event_open(2) attributes of a counted event. */
void sample_event_attr(const struct sample_event *e, struct perf_event_attr *ret);
/* Tries to open a counted event on this machine: 0, or -errno (-ENOENT, -EOPNOTSUPP, ...: not supported). */
int sample_event_try(const struct sample_event *e);
