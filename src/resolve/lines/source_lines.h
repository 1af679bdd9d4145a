/* Source lines of a profile's native frames, looked up after the recording: file by file, each in a process of its
 * own (line_helper.h). A file with bad DWARF loses its own lines and nothing else. */
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
    each(NO_DWARF, "without debug information") each(NO_PLACE, "at addresses that it does not cover")                  \
        each(DAMAGED, "of files whose debug information is damaged or incomplete")                                     \
            each(PACKAGED, "of split debug information in a package (.dwp), which this libdw does not read")           \
                each(NO_FILE, "of files that cannot be opened or identified")                                          \
                    each(CRASHED, "of files that crashed the DWARF reader")                                            \
                        each(TOO_LONG, "of files that exceeded the time limit")                                        \
                            each(TOO_MUCH, "past the memory limit")                                                    \
                                each(ENDED, "skipped because the search was stopped")

enum source_line_reason {
#define SOURCE_LINE_ENUM(name, text) SOURCE_LINE_##name,
    SOURCE_LINE_REASONS(SOURCE_LINE_ENUM)
#undef SOURCE_LINE_ENUM
        SOURCE_LINE_REASON_COUNT
};
const char *source_line_reason_text(enum source_line_reason reason);

struct source_lines_options {
    bool inlines;
    uint64_t file_max_ns;                /* time limit per file; 0: the default */
    uint64_t all_max_ns;                 /* time limit in total; 0: the default */
    const char *debug_root;              /* NULL: /usr/lib/debug */
    const struct debug_fetcher *fetcher; /* fetches debug files that are not on this machine; NULL: none */
    int stop_fd;                         /* readable: cancel; -1: none */
    void (*progress)(void *context, uint32_t files_done, uint32_t files); /* may be NULL */
    void *context;
};

struct source_lines_stats {
    uint32_t frames, with_line; /* native frames of the profile, each once */
    uint32_t without[SOURCE_LINE_REASON_COUNT];
};

/* Succeeds whatever happens with the files; frames then lack lines. -ENOMEM. The result is only for
 * profile_with_lines. */
int source_lines_find(const struct profile *p, const struct line_objects *objects,
                      const struct source_lines_options *options, struct source_lines **ret);
void source_lines_free(struct source_lines *s);
DEFINE_FREEP(source_lines)

/* One element for each frame of the profile. */
const struct profile_frame_lines *source_lines_rows(const struct source_lines *s);
void source_lines_stats(const struct source_lines *s, struct source_lines_stats *ret);
