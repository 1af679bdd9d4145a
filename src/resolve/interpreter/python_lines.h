/* Which line an instruction of CPython stands in, by the table of its code object: the location table since 3.11
 * (Objects/locations.md), the ranges of 3.10 (Objects/lnotab_notes.txt), co_lnotab before. */
#pragma once

#include <linux/types.h>

#include "probes/python.h"

#include <stddef.h>
#include <stdint.h>

/* `offset`: bytes from the first instruction; negative: before it. 0: the instruction has no line. */
uint32_t python_line(enum python_lines kind, const uint8_t *table, size_t bytes, int32_t first_line, int64_t offset);
