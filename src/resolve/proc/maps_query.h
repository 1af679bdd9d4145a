/* Executable mappings of a process, asked of the kernel one by one. A program of a hundred mappings has ten that are
 * executable, and for the others the kernel need not write lines that nobody wants: a third of the time of the first
 * look at a process. */
#pragma once

#include "base/buf.h"

/* Appends them as lines of /proc/PID/maps, whose descriptor is `maps_fd`. Fails where the kernel cannot (-ENOTTY before
 * Linux 6.11); the text is there all the same. */
int maps_query_executable(int maps_fd, struct buf *to);
