/* A critical path in words: its segments and, summed up, its components. Pure, except for the callbacks that look up
 * names. */
#pragma once

#include "base/cleanup.h"
#include "diagnose/path/path_names.h"
#include "diagnose/path/path_segments.h"
#include "model/request.h"

#include <stddef.h>
#include <stdint.h>

struct path_text;

/* Of a request that was served last by thread `tid` of process `pid`. `names` is copied; its context is borrowed. The
 * caller frees `*ret`. -ENOMEM. */
int path_text_new(const struct path_segments *path, uint32_t pid, uint32_t tid, const struct path_names *names,
                  struct path_text **ret);
void path_text_free(struct path_text *text);
DEFINE_FREEP(path_text)

/* Returns at most REQUEST_SEGMENTS_MAX segments. If the path has more, short neighbours are merged into one segment, of
 * the kind with the most time. Valid as long as `text`. */
const struct request_segment *path_text_segments(const struct path_text *text, size_t *ret_count);

/* Writes the components, longest first: segments that are alike added up, with their number of waits and the stack of
 * the longest one. If there are more than `max`, which must be REQUEST_PART_COUNT at least, the shortest ones are
 * merged into one for each kind. Strings are valid as long as `text`. At most REQUEST_PARTS_MAX in all have numbers and
 * stacks. -ENOMEM. */
int path_text_parts(struct path_text *text, size_t max, struct request_part *ret, size_t *ret_count);
