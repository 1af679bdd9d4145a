/* Processes that the kernel kills for memory: the source of signal "oom", and its options. Pipeline thread only. */
#pragma once

#include "sources/oom/oom_growth.h"
#include "sources/source.h"

#include <linux/types.h>

#include "probes/oom.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const struct source source_oom;

/* Filled from the settings (signals/oom/oom.c). */
struct oom_options {
    bool enabled;
};

/* The functions below take the opened source's state; NULL, in a replay: nothing is known. */

/* The path of a cgroup in a record; "": not known, or gone. Valid until the next call. */
const char *oom_cgroup_path(void *source, uint64_t cgroup_id);

/* The file that has the limit: "memory.max", in cgroup v1 "memory.limit_in_bytes". */
const char *oom_limit_name(void *source);

/* Walks over all processes and writes the `max` that have most memory in cgroup `cgroup_id` and below it (0: of the
 * node), without process `except`, the largest first. Returns how many. */
size_t oom_largest(void *source, uint64_t cgroup_id, uint32_t except, struct oom_process *ret, size_t max);
