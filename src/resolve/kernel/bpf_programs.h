/* BPF programs as places in kernel code: where each was compiled to, what its functions are called, and which
 * line of which source file an address belongs to (from the program's BTF). Learnt from the kernel by bpf(2)
 * and kept, within bounds, after a program has gone, until another takes its place. Without libbpf, or
 * without the right to ask, no program is ever known. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_programs;

int bpf_programs_new(struct bpf_programs **ret);
/* Of how many the names and lines are kept at most. */
void bpf_programs_limit(struct bpf_programs *p, size_t detailed);
void bpf_programs_free(struct bpf_programs *p);
DEFINE_FREEP(bpf_programs)

/* Looks for programs that are new; true when there were some. Costs one system call a program that is known
 * already. */
bool bpf_programs_refresh(struct bpf_programs *p);

struct bpf_place {
    const char *function; /* "bpf_prog_6deef7357e7b4530_name", as in kallsyms but never cut */
    const char *file;     /* "" when the program has no line information */
    uint32_t line;
};
/* Strings are borrowed until the next call. */
bool bpf_programs_find(struct bpf_programs *p, uint64_t address, struct bpf_place *ret);

size_t bpf_programs_count(const struct bpf_programs *p);
