/* How far a `sonde trace` has read a long file: a line on standard error that is written over, where that is a
 * terminal, and is gone at the end. Of what takes less than a moment there is none. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct trace_progress {
    bool is_terminal, shown;
    uint64_t next_ns;
};

struct trace_progress trace_progress_begin(void);

/* `size`: 0 when it is not known. Looks at the clock each time, on a terminal. */
void trace_progress_tell(struct trace_progress *p, const char *path, uint64_t position, uint64_t size);
void trace_progress_end(struct trace_progress *p);
