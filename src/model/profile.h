/* A profile: samples added up by whole stack and whole identity, with every name in it. The unit that aggregate keeps a
 * window of and that every exporter takes; nothing outside of it is needed to write it out (statelessness begins here).
 *
 * Two samples are one entry only if every frame and every attribute is equal; no table is keyed by a hash alone. Index
 * 0 of `strings` is "". Not thread-safe; the maker hands it on or locks. */
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
    PROFILE_EVENTS,       /* no time, but events, or what they sum up (bytes): the profile's `event` tells */
    PROFILE_TIME_COUNT
};

struct profile_frame { /* struct frame with numbers of `strings` for its texts */
    uint32_t function, system_name, file, mapping, build_id;
    uint32_t line : 24;   /* PROFILE_LINE_MAX: that or more */
    uint32_t kind : 7;    /* enum frame_kind */
    uint32_t inlined : 1; /* into the next frame's function: of one place in a file (mapping, build id, address) always
                             the same stand there */
    uint64_t address;
};

#define PROFILE_LINE_MAX ((1u << 24) - 1)

struct profile_stack { /* or a set of labels: key, value, key, value ... */
    uint32_t first;    /* in `stack_frames`; in `label_texts` */
    uint32_t count;
};

struct profile_resource {
    uint32_t pid, parent_pid;
    uint32_t command, executable_path;
    uint32_t service_name, service_namespace, service_version;
    uint32_t container_id, container_runtime, kubernetes_pod_uid, slurm_job_id, systemd_unit, cgroup_path, attributes,
        pod;
};

struct profile_entry {
    uint32_t stack;
    uint32_t resource;
    uint32_t thread_name;
    uint32_t tid;
    uint32_t link;      /* 1 + number of the link; 0: none */
    uint32_t labels;    /* 1 + number of the set of labels; 0: none */
    uint64_t count;     /* samples; or waits */
    uint64_t weight_ns; /* CPU time; or waiting time; of PROFILE_EVENTS in the profile's event_unit */
};

struct profile_moment {
    uint64_t unix_ns, weight_ns;
    uint32_t entry, reserved;
};

struct profile {
    uint64_t start_unix_ns, duration_ns; /* of what was looked at */
    uint64_t not_observed_ns; /* of the time that was asked for: in it nobody looked; of PROFILE_WALL_TIME: at waits.
                                 Merging adds it up */
    uint64_t
        period_ns; /* of the CPU samples; 0: there are none; of PROFILE_EVENTS: of so many one was taken, 0: of all */
    enum profile_time time;
    uint32_t event, event_unit; /* of PROFILE_EVENTS, in `strings`: "page-faults", "count" */
    struct strings *strings;
    struct profile_frame *frames;
    uint32_t frame_count;
    uint32_t *stack_frames;
    uint32_t stack_frame_count; /* numbers of frames, leaf first, all stacks end to end */
    struct profile_stack *stacks;
    uint32_t stack_count;
    struct profile_resource *resources;
    uint32_t resource_count;
    struct trace_link *links;
    uint32_t link_count;
    uint32_t *label_texts;
    uint32_t label_text_count; /* of all sets, end to end */
    struct profile_stack *labels;
    uint32_t labels_count; /* sets */
    struct profile_entry *entries;
    uint32_t entry_count;
    struct profile_moment *moments;
    uint32_t moment_count;   /* in order of adding; none unless profile_add_moment added all samples */
    bool drops_system_names; /* set by the maker: frames keep none, also where they are alike but for them */
    bool joins_lines;    /* set by the maker: frames of interpreters keep no line, of which a function has one in every
                            stack */
    uint64_t dropped;    /* samples not added because memory ran out or max_bytes was reached */
    uint64_t unlinked;   /* samples added without their link, because links took PROFILE_LINKS_SHARE of max_bytes */
    uint64_t unlabelled; /* likewise without their labels */
    struct profile_index *index; /* private */
};

/* An empty profile that will not grow past `max_bytes` (0: no bound); further samples are counted in `dropped`. */
int profile_new(size_t max_bytes, struct profile **ret);
/* From now on, which may be less than it holds: then it is full. */
void profile_set_max_bytes(struct profile *p, size_t max_bytes);
void profile_free(struct profile *p);
DEFINE_FREEP(profile)
/* What its weights are from here on: PROFILE_EVENTS of this name and unit, which are copied. -ENOMEM, -ENOSPC. */
int profile_set_event(struct profile *p, const char *event, const char *unit);
/* A time by its name: cpu, off_cpu, wall. -EINVAL. */
int profile_time_find(const char *name, enum profile_time *ret);
/* The name of its time, or the event's. */
const char *profile_type(const struct profile *p);
/* "nanoseconds", "count" or "bytes". */
const char *profile_unit(const struct profile *p);
/* What `count` of an entry counts: "samples", "waits", "events". */
const char *profile_counts(const struct profile *p);
/* How many frames it remembers where it found last. Changes nothing but the work. */
void profile_limit_cache(struct profile *p, uint32_t entries);

/* Samples of one stack in many requests are many entries where they were one: these may take one part in so many. Those
 * of many sets of labels likewise. */
#define PROFILE_LINKS_SHARE 8
#define PROFILE_UNLINKED    1
#define PROFILE_UNLABELLED  2

/* Adds one sample; copies all that it needs. PROFILE_UNLINKED when it was added without its link (counted),
 * PROFILE_UNLABELLED when without its labels (counted), or both, added up; -ENOSPC when full (counted), -ENOMEM. */
int profile_add(struct profile *p, const struct sample *s);
/* The same, and tells the number of its entry. */
int profile_add_entry(struct profile *p, const struct sample *s, uint32_t *ret_entry);
/* The same, and keeps when it was (which merging and folding leave behind). */
int profile_add_moment(struct profile *p, const struct sample *s, uint64_t unix_ns);

/* Which entries a reader wants: every set field must match. */
struct profile_filter {
    uint32_t pid;             /* 0: any */
    const char *container_id; /* NULL: any; a prefix of at least 12 digits will do */
    const char *service_name; /* NULL: any */
    enum profile_time time;   /* of who keeps profiles of more than one (an agent): which. A profile has but one */
};

/* Adds the entries of `from` that match (NULL: all) to `to`, joining equal ones; start and duration become the union.
 * `dropped` is added whatever the filter, since nobody knows whose samples they were. -ENOSPC or -ENOMEM when entries
 * did not fit: these are in to->dropped, and all others are merged. Links that did not fit are in to->unlinked, labels
 * in to->unlabelled. */
int profile_merge(struct profile *to, const struct profile *from, const struct profile_filter *filter);

/* What a part of a profile has of one entry. */
struct profile_amount {
    uint64_t weight_ns, count;
};
/* The same of a part of `from`, which has of each entry what `amounts` says (a row for every entry; without samples:
 * nothing of it). */
int profile_merge_part(struct profile *to, const struct profile *from, const struct profile_filter *filter,
                       const struct profile_amount *amounts);

/* Whether a reader who set `filter` (NULL: all) wants the row. */
bool profile_filter_matches(const struct profile *p, const struct profile_resource *row,
                            const struct profile_filter *filter);

/* A copy for readers, without links and labels, in which frames are what people tell apart: `function` is the frame's
 * text (frame_text of model/frame.h), and address, mangled name and the line of native and interpreted code are
 * dropped, so that stacks which only differ in these are one. */
int profile_fold(const struct profile *p, struct profile **ret);

/* What is known of a frame's place in the sources, innermost first: functions that were inlined there, and at the end
 * that of the frame itself, whose names are taken only where it has none. Borrowed; no text is NULL. */
struct profile_line {
    const char *function, *system_name, *file;
    uint32_t line; /* 0: not known */
};
struct profile_frame_lines {
    const struct profile_line *lines;
    uint32_t count; /* 0: nothing is known */
};

/* A copy with source lines: `lines` has one row for each of p->frames. -ENOSPC, -ENOMEM. */
int profile_with_lines(const struct profile *p, const struct profile_frame_lines *lines, size_t max_bytes,
                       struct profile **ret);

size_t profile_bytes(const struct profile *p); /* memory held */
uint64_t profile_samples(const struct profile *p);
/* The row with its texts, borrowed from `p`. */
struct resource profile_resource_of(const struct profile *p, const struct profile_resource *row);
/* The frame as people read it; see frame_text of model/frame.h. */
const char *profile_frame_text(const struct profile *p, const struct profile_frame *frame, char out[FRAME_TEXT_BYTES]);
static inline const char *profile_text(const struct profile *p, uint32_t string)
{
    return strings_get(p->strings, string);
}
