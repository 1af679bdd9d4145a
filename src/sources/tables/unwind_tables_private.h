/* For sources whose programs unwind: creates the unwind tables over the maps of a BPF object, or shares those of
 * another source. All others use unwind_tables.h. */
#pragma once

#include "base/cleanup.h"
#include "sources/tables/unwind_tables.h"

#include "probes/unwind/unwind_maps.h"

struct bpf_map;
struct bpf_object;

/* Before `of` is loaded: makes its maps those of `shared` or, with NULL, its own at full size. */
int unwind_tables_set_up(struct bpf_object *of, const struct unwind_tables *shared);
/* Before `of` is loaded: gives its interpreter walkers one scratch entry per CPU. */
int unwind_tables_size_interpreters(struct bpf_object *of, uint32_t cpu_count);
/* Creates the tables over the maps of `of`, which is loaded and must outlive them. The caller frees `*ret`. */
int unwind_tables_new(const struct bpf_object *of, size_t max_bytes, struct unwind_tables **ret);
void unwind_tables_free(struct unwind_tables *t);
DEFINE_FREEP(unwind_tables)

/* Removes a code object from `emitted_codes`, a program's map of code objects whose record was emitted: the program
 * emits the record again when it next meets the object. */
void unwind_tables_reemit(const struct bpf_map *emitted_codes, uint32_t pid, uint64_t code, uint32_t check);

#define UNWIND_TABLES_PROCESSES_MAX 8192
#define UNWIND_TABLES_CHUNKS_MAX    16384
