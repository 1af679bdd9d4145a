/* Paths of mounts and cgroups, from the names that the BPF programs note. */
#pragma once

#include "probes/io.h"

#include <stddef.h>

/* Writes the path: "/mnt/data", or "/" where there are no names. Names that the table had no room for are shown by
 * "...": "/.../data". Cut to fit `size` bytes. */
void io_path_format(const struct io_name *name, char *ret, size_t size);
