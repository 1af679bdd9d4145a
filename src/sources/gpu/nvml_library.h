/* Finds and loads NVIDIA's management library. */
#pragma once

#include "sources/gpu/nvml.h"

#include <limits.h>
#include <stdbool.h>

/* Looks for the library without loading it, where the dynamic linker and the packages of containers have it. Writes to
 * `ret` what dlopen takes. */
bool nvml_library_find(char ret[PATH_MAX]);

/* Loads the library; functions that it lacks are NULL. 0; -ENOENT: it cannot be loaded or is another library. */
int nvml_library_load(const char *path, struct nvml_functions *ret);
