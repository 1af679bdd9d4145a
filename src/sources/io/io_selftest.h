/* Whether what this process does itself is counted: once, when the programs have been attached. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Writes into memory files by several system calls and by io_uring and, if `with_pages`, reads one through mmap.
 * `io_source` counts (sources/io/io.h). Writes the names of those that were not counted to `ret`: "writev, io_uring";
 * "" when all were, or could not be tried. */
void io_selftest(void *io_source, bool with_pages, char *ret, size_t size);
