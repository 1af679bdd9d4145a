/* Finds NVIDIA's CUPTI for this process. */
#pragma once

#include "cuda/cupti.h"

/* Loads the functions of the CUPTI that the program itself has loaded, or else of the newest one whose CUDA the driver
 * supports, among those that the linker finds and those of CUDA's usual directory. The library stays loaded. Returns
 * NULL and what is wrong in `*ret_reason`; a later call tries again. `*ret_version` is cuptiGetVersion's. Not
 * thread-safe. */
const struct cupti *cupti_library_load(uint32_t *ret_version, const char **ret_reason);
