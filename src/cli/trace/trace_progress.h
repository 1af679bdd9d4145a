/* Progress of `sonde trace` in a long file: one line on standard error that is overwritten, if that is a terminal, and
 * erased at the end. Nothing is shown in the first 200 ms. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct trace_progress {
    bool is_terminal, shown;
    uint64_t next_ns;
};

struct trace_progress trace_progress_begin(void);

/* `size`: total bytes, 0 when unknown. Reads the clock on each call on a terminal, so call it every few thousand
 * records. */
void trace_progress_update(struct trace_progress *p, const char *path, uint64_t position, uint64_t size);
void trace_progress_end(struct trace_progress *p);
