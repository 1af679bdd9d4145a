/* A profile: samples aggregated by whole stack and whole identity, with all names. The unit that aggregate stores
 * per window and that every exporter takes; writing it out needs nothing else.
 *
 * Two samples share an entry only if every frame and every attribute is equal; no table is keyed by a hash alone.
 * Index 0 of `strings` is "". Not thread-safe; the owner hands it on or locks. */
#pragma once

#include "base/cleanup.h"
#include "base/strings.h"
#include "model/sample.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct profile_frame { /* struct frame with indexes of `strings` for its strings */
    uint32_t function, system_name, file, mapping, build_id;
    uint32_t line : 24;   /* PROFILE_LINE_MAX: that or more */
    uint32_t kind : 7;    /* enum frame_kind */
    uint32_t inlined : 1; /* into the next frame's function: one place in a file (mapping, build ID, address) always has
                             the same inlined frames */
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
    uint32_t link;   /* 1 + index of the link; 0: none */
    uint32_t labels; /* 1 + index of the set of labels; 0: none */
    uint64_t count;  /* of samples or of waits */
    uint64_t value;  /* the sum over these, in the unit of the profile's type */
};

struct profile_moment {
    uint64_t unix_ns, value;
    uint32_t entry, reserved;
};

struct profile {
    uint64_t start_unix_ns, duration_ns; /* the monitored interval */
    uint64_t not_observed_ns; /* requested time that was not monitored; for sample_type_wall: time without off-CPU
                                  monitoring. Summed when merging */
    uint64_t period; /* one sample per `period` of the type's unit; for sample_type_wall, of its CPU samples. 0: nothing
                        was sampled, all was recorded */
    const struct sample_type *type; /* never NULL: sample_type_cpu unless set; see profile_set_type */
    struct sample_type copied_type; /* private: where `type` points to if it is a copy */
    struct strings *strings;
    struct profile_frame *frames;
    uint32_t frame_count;
    uint32_t *stack_frames;
    uint32_t stack_frame_count; /* indexes of frames, leaf first, all stacks end to end */
    struct profile_stack *stacks;
    uint32_t stack_count;
    struct profile_resource *resources;
    uint32_t resource_count;
    struct trace_link *links;
    uint32_t link_count;
    uint32_t *label_texts;
    uint32_t label_text_count; /* of all sets, end to end */
    struct profile_stack *labels;
    uint32_t labels_count; /* number of sets */
    struct profile_entry *entries;
    uint32_t entry_count;
    struct profile_moment *moments;
    uint32_t moment_count;   /* in order of adding; empty unless profile_add_moment added all samples */
    bool drops_system_names; /* set by the owner: frames store no system names, so frames that differ only in them are
                                equal */
    bool joins_lines;  /* set by the owner: frames of interpreted and JIT code store no line, so a function is one frame
                          in every stack */
    uint64_t dropped;  /* samples not added because memory ran out or max_bytes was reached */
    uint64_t unlinked; /* samples added without their link, because links took PROFILE_LINKS_SHARE of max_bytes */
    uint64_t unlabelled;         /* likewise without their labels */
    char nothing[512];           /* why it has no samples, for people; "": it has some, or the reason is not known */
    struct profile_index *index; /* private */
};

/* Creates an empty profile that does not grow past `max_bytes` (0: no limit); further samples are counted in
 * `dropped`. 0 or -ENOMEM. */
int profile_new(size_t max_bytes, struct profile **ret);
/* Changes the limit. It may be less than the profile's present size: the profile is then full. */
void profile_set_max_bytes(struct profile *p, size_t max_bytes);
void profile_free(struct profile *p);
DEFINE_FREEP(profile)
/* Sets the type of its values: points to the equal constant of model/sample_type.h, or to a copy with
 * texts of its own. 0; on -ENOMEM or -ENOSPC the type is unchanged. */
int profile_set_type(struct profile *p, const struct sample_type *type);
/* Limits the cache of recently found frames. Affects speed only. */
void profile_limit_cache(struct profile *p, uint32_t entries);

/* One stack in many traced requests becomes many entries instead of one: these may use at most 1/PROFILE_LINKS_SHARE
 * of max_bytes, and likewise those with many sets of labels. */
#define PROFILE_LINKS_SHARE 8
#define PROFILE_UNLINKED    1
#define PROFILE_UNLABELLED  2

/* Adds one sample; copies all that it needs. 0, or PROFILE_UNLINKED when it was added without its link (counted),
 * PROFILE_UNLABELLED when without its labels (counted), or both ORed; -ENOSPC when full, -ENOMEM (both counted). */
int profile_add(struct profile *p, const struct sample *s);
/* The same; returns the index of the entry in `*ret_entry`. */
int profile_add_entry(struct profile *p, const struct sample *s, uint32_t *ret_entry);
/* The same; also stores the sample's time (which merging and folding drop). */
int profile_add_moment(struct profile *p, const struct sample *s, uint64_t unix_ns);

/* Selects entries: every set field must match. */
struct profile_filter {
    uint32_t pid;                   /* 0: any */
    const char *container_id;       /* NULL: any; a prefix of at least 12 digits suffices */
    const char *service_name;       /* NULL: any */
    const struct sample_type *type; /* selects among the windows of an agent; ignored for a single profile */
};

/* Adds the entries of `from` that match (NULL: all) to `to`, which must be another profile, joining equal ones; start
 * and duration become the union. `dropped` is added whatever the filter, since the origin of dropped samples is
 * unknown. -ENOSPC or -ENOMEM when entries did not fit: these are counted in to->dropped, and all others are merged.
 * Links that did not fit are counted in to->unlinked, labels in to->unlabelled. */
int profile_merge(struct profile *to, const struct profile *from, const struct profile_filter *filter);

/* The share of one entry in a part of a profile. */
struct profile_amount {
    uint64_t value, count;
};
/* The same for a part of `from`: `amounts` has one element per entry; a count of 0 excludes the entry. */
int profile_merge_part(struct profile *to, const struct profile *from, const struct profile_filter *filter,
                       const struct profile_amount *amounts);

/* True when `row` matches `filter` (NULL: all). */
bool profile_filter_matches(const struct profile *p, const struct profile_resource *row,
                            const struct profile_filter *filter);

/* A copy for display, without links and labels. `function` becomes the frame's text (frame_text of model/frame.h);
 * address, mangled name, and the line of native and interpreted code are dropped, so that stacks which differ only
 * in these are one. The caller frees `*ret`; it has no limit. -ENOMEM. */
int profile_fold(const struct profile *p, struct profile **ret);

/* The source lines of a frame, innermost first: inlined functions, and last the frame itself, whose names are used
 * only if the frame has none. Borrowed; no string is NULL. */
struct profile_line {
    const char *function, *system_name, *file;
    uint32_t line; /* 0: unknown */
};
struct profile_frame_lines {
    const struct profile_line *lines;
    uint32_t count; /* 0: unknown */
};

/* A copy with source lines: `lines` has one element for each of p->frames. The caller frees `*ret`, of at most
 * `max_bytes` (0: no limit). 0, -ENOSPC or -ENOMEM. */
int profile_with_lines(const struct profile *p, const struct profile_frame_lines *lines, size_t max_bytes,
                       struct profile **ret);

size_t profile_bytes(const struct profile *p);     /* memory held */
uint64_t profile_samples(const struct profile *p); /* the sum of the entries' counts */
/* The resource with its strings, borrowed from `p`. */
struct resource profile_resource_of(const struct profile *p, const struct profile_resource *row);
/* The text of the frame for display; see frame_text of model/frame.h. */
const char *profile_frame_text(const struct profile *p, const struct profile_frame *frame, char out[FRAME_TEXT_BYTES]);
static inline const char *profile_text(const struct profile *p, uint32_t string)
{
    return strings_get(p->strings, string);
}
