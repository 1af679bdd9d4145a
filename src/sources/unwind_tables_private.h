/* How the cpu source, or the request source where it is alone, makes the tables over the maps of its skeleton. Not
 * for others: they use unwind_tables.h. */
#pragma once

#include "base/cleanup.h"
#include "sources/unwind_tables.h"

#include "../../probes/unwind_maps.h"

struct unwind_tables_maps { /* descriptors are borrowed and outlive the tables */
    int processes_fd, chunks_fd, objects_fd;
    uint32_t object_flags; /* of an object's own map, equal to those of the template in the skeleton */
};

int unwind_tables_new(const struct unwind_tables_maps *maps, size_t max_bytes, struct unwind_tables **ret);
void unwind_tables_free(struct unwind_tables *t);
DEFINE_FREEP(unwind_tables)

/* For another skeleton that walks by the same tables. */
const struct unwind_tables_maps *unwind_tables_maps(const struct unwind_tables *t);

#define UNWIND_TABLES_PROCESSES_MAX 8192
#define UNWIND_TABLES_CHUNKS_MAX    16384
