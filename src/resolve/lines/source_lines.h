/* The source lines of a profile's native frames, looked for when the recording is over: file after file, by a process
 * that is made for each (line_helper.h). What its DWARF does to that one costs the lines of that file and nothing else.
 */
#pragma once

#include "base/cleanup.h"
#include "model/profile.h"

#include <stdbool.h>
#include <stdint.h>

struct debug_fetcher;
struct line_objects;
struct source_lines;

/* Why a frame has no line. */
#define SOURCE_LINE_REASONS(each)                                                                                      \
    each(NO_DWARF, "without debug information") each(NO_PLACE, "at places that it does not tell of")                   \
        each(DAMAGED, "of files whose debug information is damaged or not all there")                                  \
            each(PACKAGED, "of split debug information in a package (.dwp), which libdw does not read here")           \
                each(NO_FILE, "of files that cannot be opened, or are not one")                                        \
                    each(CRASHED, "of files on which its reader crashed")                                              \
                        each(TOO_LONG, "of files that took too long") each(TOO_MUCH, "past the bounds of memory")      \
                            each(ENDED, "not looked for any more")

enum source_line_reason {
#define SOURCE_LINE_ENUM(name, text) SOURCE_LINE_##name,
    SOURCE_LINE_REASONS(SOURCE_LINE_ENUM)
#undef SOURCE_LINE_ENUM
        SOURCE_LINE_REASON_COUNT
};
const char *source_line_reason_text(enum source_line_reason reason);

struct source_lines_options {
    bool inlines;
    uint64_t file_max_ns;                /* how long one file may take; 0: the default */
    uint64_t all_max_ns;                 /* ... and all of them */
    const char *debug_root;              /* NULL: /usr/lib/debug */
    const struct debug_fetcher *fetcher; /* asked for debug files that are not here; NULL: nobody is */
    int stop_fd;                         /* readable: no more is wanted; -1: none */
    void (*progress)(void *context, uint32_t files_done, uint32_t files); /* may be NULL */
    void *context;
};

struct source_lines_stats {
    uint32_t frames, with_line; /* native frames of the profile, each once */
    uint32_t without[SOURCE_LINE_REASON_COUNT];
};

/* Whatever happens to files, it is there: with fewer lines. -ENOMEM. Only profile_with_lines needs it, and only as long
 * as that runs. */
int source_lines_find(const struct profile *p, const struct line_objects *objects,
                      const struct source_lines_options *options, struct source_lines **ret);
void source_lines_free(struct source_lines *s);
DEFINE_FREEP(source_lines)

/* One row for each frame of the profile. */
const struct profile_frame_lines *source_lines_rows(const struct source_lines *s);
void source_lines_stats(const struct source_lines *s, struct source_lines_stats *ret);
