/* Sums over the counters of I/O operations. */
#pragma once

#include "probes/io.h"

#include <stdint.h>

/* Adds the counters; `last_ns` stays. Sums stop at 2^64 - 1: a program can make its counters of bytes as large by
 * unconfirmed requests of io_uring. */
void io_counters_add(struct io_counters *to, const struct io_counters *from);

/* How many operations that are. */
uint64_t io_counters_operations(const struct io_counters *c);
