/* `sonde record --lines`: the profile with source lines, when the recording is over. */
#pragma once

#include "model/profile.h"
#include "resolve/lines/source_lines.h"
#include "resolve/symbols/debuginfod.h"

struct line_objects;

struct record_lines_stats {
    struct source_lines_stats lines;
    struct debuginfod_stats servers;
};

/* Before anything is recorded: says why it cannot be done. */
int record_lines_check(void);

/* Puts a profile with lines (of no more than `max_bytes`) in the place of `*profile`. Debug files that are not here
 * come from the debuginfod servers that the environment names. Ctrl-C ends the looking, not us: the lines that are
 * there by then are taken; and one that comes when the looking is over ends nothing. Where it fails the profile stays
 * as it is, and that is said. */
void record_lines_add(struct profile **profile, const struct line_objects *objects, bool inlines, bool show_progress,
                      size_t max_bytes, struct record_lines_stats *ret);

/* For the last line on standard error: what has no line, and why; what came from servers, and what did not. */
void record_lines_report(const struct record_lines_stats *figures);
