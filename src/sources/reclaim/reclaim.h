/* Reclaim and compaction of memory: the source of signal "reclaim", and its options. Pipeline thread only. */
#pragma once

#include "sources/sampling/cgroup_memory.h"
#include "sources/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const struct source source_reclaim;

/* Filled from the settings (signals/reclaim/reclaim.c). */
struct reclaim_options {
    bool enabled;
    uint64_t threshold_ns; /* a thread that spends as much within ten times as much has a record */
};

/* The word for a kind (enum reclaim_kind) in metrics and events. */
const char *reclaim_kind_name(size_t kind);

/* cgroup_memory_text of a cgroup in a record. `source`: the opened source's state; NULL in a replay: "". */
const char *reclaim_cgroup_text(void *source, uint64_t cgroup_id, char out[CGROUP_MEMORY_TEXT_BYTES]);
