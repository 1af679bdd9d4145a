/* Parser of /tmp/perf-PID.map: runtimes list their JIT code in it
 * (linux/tools/perf/Documentation/jit-interface.txt): lines of START SIZE NAME, both numbers hexadecimal. Pure; the
 * input is untrusted. */
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

/* Parses one line of `bytes` bytes, without the newline. False: malformed. */
bool perf_map_parse(const char *line, size_t bytes, struct perf_map_line *ret);

/* A file with a longer line is no perf map. */
#define PERF_MAP_LINE_MAX 65536

/* Adds all complete lines of a piece of the file at offset `place` to `ranges`. Malformed lines are skipped and counted
 * in `*bad`. Returns the bytes consumed; an incomplete last line is left for the next call. -EBADMSG: not a perf map;
 * -ENOMEM. */
int64_t perf_map_take(struct code_ranges *ranges, const void *data, size_t bytes, uint32_t place, uint64_t *bad);
