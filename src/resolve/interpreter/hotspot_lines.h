/* Maps an index in a Java method's bytecode to its source line, by the compressed line table that HotSpot keeps after
 * the bytecode. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The line of the bytecode at `index`. `bias`: 1 if no byte of a compressed number is 0 (since Java 20), else 0.
 * Returns 0 if the table has no line for it, or ends before it. Tolerates malformed tables. */
uint32_t hotspot_line(const uint8_t *table, size_t bytes, unsigned bias, uint32_t index);

/* The length of the table at the start of `data`, with its terminating 0; `bytes` if the terminator is missing. */
size_t hotspot_lines_bytes(const uint8_t *data, size_t bytes);
