/* What a profile consists of, as plain data: exporters index its arrays directly. profile.h fills and merges profiles.
 */
#pragma once

#include "base/strings.h"
#include "model/sample_type.h"
#include "model/trace_link.h"

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

/* One stack in many traced requests becomes many entries instead of one: these may use at most 1/PROFILE_LINKS_SHARE
 * of max_bytes, and likewise those with many sets of labels. */
#define PROFILE_LINKS_SHARE 8
#define PROFILE_UNLINKED    1
#define PROFILE_UNLABELLED  2

static inline const char *profile_text(const struct profile *p, uint32_t string)
{
    return strings_get(p->strings, string);
}

size_t profile_bytes(const struct profile *p); /* memory held */
/* Changes the limit. It may be less than the profile's present size: the profile is then full. */
void profile_set_max_bytes(struct profile *p, size_t max_bytes);
/* Limits the cache of recently found frames. Affects speed only. */
void profile_limit_cache(struct profile *p, uint32_t entries);
