/* Maps a CPython instruction to its source line, by the line table of its code object: the location table since 3.11
 * (Objects/locations.md), the ranges of 3.10 (Objects/lnotab_notes.txt), co_lnotab before. Pure. */
#pragma once

#include <linux/types.h>

#include "probes/python.h"

#include <stddef.h>
#include <stdint.h>

/* `offset`: bytes from the first instruction; if negative, the result is `first_line`. 0: the instruction has no line.
 * Tolerates malformed tables. */
uint32_t python_line(enum python_lines kind, const uint8_t *table, size_t bytes, int32_t first_line, int64_t offset);
