/* Queries the executable mappings of a process one by one (PROCMAP_QUERY). Of a hundred mappings of a program about
 * ten are executable; not formatting the others saves a third of the time of the first look at a process. */
#pragma once

#include "base/buf.h"

/* Appends them in the format of /proc/PID/maps, whose descriptor is `maps_fd`. -ENOTTY before Linux 6.11; the caller
 * can then read the text instead. */
int maps_query_executable(int maps_fd, struct buf *to);
