/* The text of a /tmp/perf-PID.map, which runtimes write of the code that they make
 * (linux/tools/perf/Documentation/jit-interface.txt): lines of START SIZE NAME, both numbers hexadecimal. A pure parser
 * of what anybody may have written. */
#pragma once

#include "resolve/jit/code_ranges.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct perf_map_line {
    uint64_t start;
    uint32_t size;
    const char *name; /* not NUL-terminated; borrowed from the text */
    size_t name_bytes;
};

/* False: makes no sense. `bytes`: without the newline. */
bool perf_map_parse(const char *line, size_t bytes, struct perf_map_line *ret);

/* A line that is longer is none of a map. */
#define PERF_MAP_LINE_MAX 65536

/* Takes in all whole lines of a piece of the file that lies at `place`; lines that make no sense are left out, and
 * counted in `*bad`. Returns how many bytes were taken; the rest, the beginning of a line, is for the next time.
 * -EBADMSG: that is no map; -ENOMEM. */
int64_t perf_map_take(struct code_ranges *ranges, const void *data, size_t bytes, uint32_t place, uint64_t *bad);
