/* Which line an instruction of CPython stands in: the location table of code objects since 3.11 (Objects/locations.md). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* `offset`: bytes from the first instruction; negative: before it. 0: the instruction has no line. */
uint32_t python_line(const uint8_t *table, size_t bytes, int32_t first_line, int64_t offset);
