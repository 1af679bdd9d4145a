/* The evidence of segments of a critical path in words: the files of a disk, the tasks that ran instead. Pure, except
 * for the callbacks that look up names. */
#pragma once

#include "base/buf.h"
#include "diagnose/path/path_names.h"
#include "diagnose/path/path_segments.h"
#include "model/request.h"

/* Appends the evidence for segments [first, end), which are shown as one segment of kind `kind` and thread `tid`: a
 * line for each item. */
void path_notes_put(const struct path_segments *path, size_t first, size_t end, enum request_part_kind kind,
                    uint32_t tid, const struct path_names *names, struct buf *out);
