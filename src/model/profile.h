/* A profile: samples added up by whole stack and whole identity, with every name in it. The unit that aggregate keeps a window
 * of and that every exporter takes; nothing outside of it is needed to write it out (statelessness begins here).
 *
 * Two samples are one entry only if every frame and every attribute is equal; no table is keyed by a hash alone. Index 0 of
 * `strings` is "". Not thread-safe; the maker hands it on or locks. */
#pragma once

#include "base/cleanup.h"
#include "base/strings.h"
#include "model/sample.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a profile's weights are. */
enum profile_time {
    PROFILE_CPU_TIME,
    PROFILE_OFF_CPU_TIME, /* of threads that wait, for whatever it is */
    PROFILE_WALL_TIME,    /* both */
    PROFILE_TIME_COUNT
};

/* "cpu", and what it counts: "samples". */
const char *profile_time_name(enum profile_time time);
const char *profile_time_counts(enum profile_time time);

struct profile_frame { /* struct frame with numbers of `strings` for its texts */
    uint32_t function, system_name, file, mapping, build_id;
    uint32_t line : 24; /* PROFILE_LINE_MAX: that or more */
    uint32_t kind : 8;  /* enum frame_kind */
    uint64_t address;
};

#define PROFILE_LINE_MAX ((1u << 24) - 1)

struct profile_stack {
    uint32_t first; /* in `stack_frames` */
    uint32_t count;
};

struct profile_resource {
    uint32_t pid, parent_pid;
    uint32_t command, executable_path;
    uint32_t service_name, service_namespace, service_version;
    uint32_t container_id, container_runtime, kubernetes_pod_uid, slurm_job_id, systemd_unit, cgroup_path;
};

struct profile_entry {
    uint32_t stack;
    uint32_t resource;
    uint32_t thread_name;
    uint32_t tid;
    uint32_t link;      /* 1 + number of the link; 0: none */
    uint32_t reserved;
    uint64_t count;     /* samples; or waits */
    uint64_t weight_ns; /* CPU time; or waiting time */
};

struct profile_moment {
    uint64_t unix_ns, weight_ns;
    uint32_t entry, reserved;
};

struct profile {
    uint64_t start_unix_ns, duration_ns;
    uint64_t period_ns; /* of the CPU samples; 0: there are none */
    enum profile_time time;
    struct strings *strings;
    struct profile_frame *frames;       uint32_t frame_count;
    uint32_t *stack_frames;             uint32_t stack_frame_count; /* numbers of frames, leaf first, all stacks end to end */
    struct profile_stack *stacks;       uint32_t stack_count;
    struct profile_resource *resources; uint32_t resource_count;
    struct trace_link *links;           uint32_t link_count;
    struct profile_entry *entries;      uint32_t entry_count;
    struct profile_moment *moments;     uint32_t moment_count; /* in order of adding; none unless profile_add_moment added all samples */
    bool joins_lines; /* set by the maker: frames of interpreters keep no line, of which a function has one in every stack */
    uint64_t dropped; /* samples not added because memory ran out or max_bytes was reached */
    uint64_t unlinked; /* samples added without their link, because links took PROFILE_LINKS_SHARE of max_bytes */
    struct profile_index *index; /* private */
};

/* An empty profile that will not grow past `max_bytes` (0: no bound); further samples are counted in `dropped`. */
int profile_new(size_t max_bytes, struct profile **ret);
void profile_free(struct profile *p);
DEFINE_FREEP(profile)
/* How many frames it remembers where it found last. Changes nothing but the work. */
void profile_limit_cache(struct profile *p, uint32_t entries);

/* Samples of one stack in many requests are many entries where they were one: these may take one part in so many. */
#define PROFILE_LINKS_SHARE 8
#define PROFILE_UNLINKED    1

/* Adds one sample; copies all that it needs. PROFILE_UNLINKED when it was added without its link (counted); -ENOSPC when full
 * (counted), -ENOMEM. */
int profile_add(struct profile *p, const struct sample *s);
/* The same, and keeps when it was (which merging and folding leave behind). */
int profile_add_moment(struct profile *p, const struct sample *s, uint64_t unix_ns);

/* Which entries a reader wants: every set field must match. */
struct profile_filter {
    uint32_t pid;              /* 0: any */
    const char *container_id;  /* NULL: any; a prefix of at least 12 digits will do */
    const char *service_name;  /* NULL: any */
};

/* Adds the entries of `from` that match (NULL: all) to `to`, joining equal ones; start and duration become the union. `dropped` is
 * added whatever the filter, since nobody knows whose samples they were. -ENOSPC or -ENOMEM when entries did not fit: these are
 * in to->dropped, and all others are merged. Links that did not fit are in to->unlinked. */
int profile_merge(struct profile *to, const struct profile *from, const struct profile_filter *filter);

/* A copy for readers, without links, in which frames are what people tell apart: `function` is the frame's text (frame_text of model/frame.h), and
 * address, mangled name and an interpreter's line are dropped, so that stacks which only differ in these are one. */
int profile_fold(const struct profile *p, struct profile **ret);

size_t profile_bytes(const struct profile *p); /* memory held */
/* The row with its texts, borrowed from `p`. */
struct resource profile_resource_of(const struct profile *p, const struct profile_resource *row);
/* The frame as people read it; see frame_text of model/frame.h. */
const char *profile_frame_text(const struct profile *p, const struct profile_frame *frame, char out[FRAME_TEXT_BYTES]);
static inline const char *profile_text(const struct profile *p, uint32_t string)
{
    return strings_get(p->strings, string);
}
