/* How a source whose programs walk makes the tables over the maps of its skeleton, or shares another's. Not for others:
 * they use unwind_tables.h. */
#pragma once

#include "base/cleanup.h"
#include "sources/tables/unwind_tables.h"

#include "probes/unwind/unwind_maps.h"

struct bpf_map;
struct bpf_object;

/* Before `of` is loaded: its maps are those of `shared`, or with NULL its own and of full size. */
int unwind_tables_set_up(struct bpf_object *of, const struct unwind_tables *shared);
/* The same of what its walks of interpreters' frames work in: one a CPU. */
int unwind_tables_size_interpreters(struct bpf_object *of, uint32_t cpu_count);
/* Over the maps of `of`, which is loaded and outlives the tables. */
int unwind_tables_new(const struct bpf_object *of, size_t max_bytes, struct unwind_tables **ret);
void unwind_tables_free(struct unwind_tables *t);
DEFINE_FREEP(unwind_tables)

/* Takes a code object out of those that were told (`told`: the program's map of that name): it is told again when it is
 * met. */
void unwind_tables_reemit(const struct bpf_map *told, uint32_t pid, uint64_t code, uint32_t check);

#define UNWIND_TABLES_PROCESSES_MAX 8192
#define UNWIND_TABLES_CHUNKS_MAX    16384
