/* The FILE argument of `sonde trace`: a file, standard input, or the common prefix of a rotated set. Reads record by
 * record, shows progress on a terminal, and logs at the end what could not be read. */
#pragma once

#include "base/cleanup.h"
#include "trace/import/triton_files.h"
#include "trace/model/triton_trace.h"

#include <stdbool.h>
#include <stdint.h>

struct trace_input {
    const char *argument;      /* borrowed */
    struct triton_files files; /* owned */
};

/* Resolves FILE, or FILE.0, FILE.1, ... if FILE does not exist. 0, or -errno after logging. */
int trace_input_find(const char *argument, struct trace_input *ret);
void trace_input_clear(struct trace_input *input);

/* Calls `take` for every record of the file, until it returns nonzero: 1 to stop, or -errno. Logs the skipped content.
 * Returns 0; 1: parts of the file are malformed, the rest was read; -errno after logging. */
int trace_input_read(const char *path, void *context, int (*take)(void *context, const struct triton_record *record));

/* Progress in a long file: one line on standard error that is overwritten, if that is a terminal, and erased at the
 * end. Nothing is shown in the first 200 ms. */
struct trace_progress {
    bool is_terminal, shown;
    uint64_t next_ns;
};

struct trace_progress trace_progress_begin(void);

/* `size`: total bytes, 0 when unknown. Reads the clock on each call on a terminal, so call it every few thousand
 * records. */
void trace_progress_update(struct trace_progress *p, const char *path, uint64_t position, uint64_t size);
void trace_progress_end(struct trace_progress *p);
