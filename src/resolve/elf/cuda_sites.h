/* Where the calls of libcuda can be counted: addresses of instructions that the kernel emulates when a uprobe replaces
 * them (probe_site.h), in all exported functions of a kind, with their variants (_v2, _ptsz, ...). A kind is counted as
 * a whole or not at all. */
#pragma once

#include "resolve/elf/elf.h"

#include <linux/types.h>

#include "probes/cuda.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CUDA_SITES_MAX 64 /* of a kind */

struct cuda_call_sites {
    uint64_t file_offsets[CUDA_SITES_MAX];
    size_t count;      /* 0: the library has no such function, or the kind is declined */
    char declined[48]; /* the function because of which the kind is not counted; "": none */
};

struct cuda_sites {
    struct cuda_call_sites calls[CUDA_CALLS];
};

/* Finds the sites in `f`. 0: at least one function was found. -ENOENT: none; an error of elf_symbols_read. */
int cuda_sites_find(const struct elf_file *f, struct cuda_sites *ret);

/* The kind of the function with this name; -1: it is not counted. */
int cuda_call_of(const char *function);
