/* `sonde record --lines`: adds source lines to the profile after the recording. */
#pragma once

#include "model/profile.h"
#include "resolve/lines/source_lines.h"
#include "resolve/symbols/debuginfod.h"

struct line_objects;

struct record_lines_stats {
    struct source_lines_stats lines;
    struct debuginfod_stats servers;
};

/* Checks, before recording, that debug information can be read. 0, or -errno after logging. */
int record_lines_check(void);

/* Replaces `*profile` by a profile with source lines of at most `max_bytes`; the old one is freed. Debug files that are
 * not on this machine are fetched from the debuginfod servers named by the environment. Ctrl-C stops the search and
 * keeps the lines found so far; one more Ctrl-C just after the search is ignored. On failure, which is logged,
 * `*profile` is unchanged. */
void record_lines_add(struct profile **profile, const struct line_objects *objects, bool inlines, bool show_progress,
                      size_t max_bytes, struct record_lines_stats *ret);

/* Appends to the summary on standard error: frames without lines by reason, and files fetched by debuginfod. */
void record_lines_report(const struct record_lines_stats *stats);
