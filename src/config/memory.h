/* Divides the agent's memory among the enabled signals. */
#pragma once

#include "model/memory_plan.h"

#include <stdbool.h>
#include <stdint.h>

struct config;

/* Divides `whole_bytes` among the parts that `config` enables (NULL: the defaults), on a machine with `cpus` CPUs.
 * `keeps_results`: also among the agent's windows, requests and exports. */
void memory_plan_make(const struct config *config, uint64_t whole_bytes, long cpus, bool keeps_results,
                      struct memory_plan *ret);
