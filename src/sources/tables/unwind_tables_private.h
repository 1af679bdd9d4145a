/* Creating the unwind tables over the maps of a BPF object (shared_tables.c), and preparing programs that unwind. All
 * others use unwind_tables.h. */
#pragma once

#include "base/cleanup.h"
#include "sources/tables/unwind_tables.h"

#include "probes/unwind/unwind_maps.h"

struct bpf_object;

/* Before `of` is loaded: gives its interpreter walkers one scratch entry per CPU. */
int unwind_tables_size_interpreters(struct bpf_object *of, uint32_t cpu_count);
/* Creates the tables over the maps of `of`, which is loaded and must outlive them. The caller frees `*ret`. */
int unwind_tables_new(const struct bpf_object *of, size_t max_bytes, struct unwind_tables **ret);
void unwind_tables_free(struct unwind_tables *t);
DEFINE_FREEP(unwind_tables)

#define UNWIND_TABLES_PROCESSES_MAX 8192
#define UNWIND_TABLES_CHUNKS_MAX    16384
