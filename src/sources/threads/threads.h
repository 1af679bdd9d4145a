/* The threads of one process and their stacks, on request: the source of signal "threads". Pipeline thread only. */
#pragma once

#include "sources/source.h"

#include <stdint.h>

extern const struct source source_threads;

/* Reads the threads of process `pid` once: the next drains return a struct thread_record for each thread with its
 * stack, and a struct threads_end after the last one, ITERATOR_HELPER_MAX_S later at the latest. -EBUSY: the last
 * reading has not ended; -errno. */
int threads_source_read(void *threads_source, uint32_t pid);
