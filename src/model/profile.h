/* A profile: samples aggregated by whole stack and whole identity, with all names. The unit that aggregate stores
 * per window and that every exporter takes; writing it out needs nothing else.
 *
 * Two samples share an entry only if every frame and every attribute is equal; no table is keyed by a hash alone.
 * Index 0 of `strings` is "". Not thread-safe; the owner hands it on or locks. */
#pragma once

#include "base/cleanup.h"
#include "model/profile_rows.h"
#include "model/sample.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Creates an empty profile that does not grow past `max_bytes` (0: no limit); further samples are counted in
 * `dropped`. 0 or -ENOMEM. */
int profile_new(size_t max_bytes, struct profile **ret);
void profile_free(struct profile *p);
DEFINE_FREEP(profile)
/* Sets the type of its values: points to the equal constant of model/sample_type.h, or to a copy with
 * texts of its own. 0; on -ENOMEM or -ENOSPC the type is unchanged. */
int profile_set_type(struct profile *p, const struct sample_type *type);

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

uint64_t profile_samples(const struct profile *p); /* the sum of the entries' counts */
/* The resource with its strings, borrowed from `p`. */
struct resource profile_resource_of(const struct profile *p, const struct profile_resource *row);
/* The text of the frame for display; see frame_text of model/frame.h. */
const char *profile_frame_text(const struct profile *p, const struct profile_frame *frame, char out[FRAME_TEXT_BYTES]);
