/* JIT-compiled BPF programs as kernel code: their address ranges, function names, and source lines (from the program's
 * BTF). Read from the kernel by bpf(2). A program that is unloaded is kept, within bounds, until another one occupies
 * its addresses. Without libbpf or the capability to list programs, no program is known. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_programs;

/* Nothing is listed until the first refresh. -ENOMEM. */
int bpf_programs_new(struct bpf_programs **ret);
/* Limits the number of programs whose names and lines are kept. */
void bpf_programs_limit(struct bpf_programs *p, size_t detailed);
void bpf_programs_free(struct bpf_programs *p);
DEFINE_FREEP(bpf_programs)

/* Looks for new programs. True: some were found. Costs one system call per program already known. */
bool bpf_programs_refresh(struct bpf_programs *p);

struct bpf_place {
    const char *function; /* "bpf_prog_6deef7357e7b4530_name", as in kallsyms but not truncated */
    const char *file;     /* "" when the program has no line information */
    uint32_t line;
};
/* Finds the function and line at `address`. Strings are borrowed until the next call. False: no known program. */
bool bpf_programs_find(struct bpf_programs *p, uint64_t address, struct bpf_place *ret);

/* Number of known programs, including unloaded ones that are kept. */
size_t bpf_programs_count(const struct bpf_programs *p);
