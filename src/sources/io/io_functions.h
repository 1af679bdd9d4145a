/* Copies of a pair of BPF programs at the entry and the exit of each kernel function that carries out a system call
 * about files. libbpf attaches a program to one function only. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct bpf_program;
struct btf;
struct io_functions;

/* The first of these functions that the kernel has; NULL: none. For the programs themselves. */
const char *io_functions_first(const struct btf *kernel);

/* Attaches copies of the loaded programs to all functions but the first. The caller frees `*ret`, which detaches them.
 * -errno: a function of this architecture's own calls cannot be attached. */
int io_functions_attach(const struct btf *kernel, const struct bpf_program *enter, const struct bpf_program *exit,
                        struct io_functions **ret);
void io_functions_free(struct io_functions *f);
DEFINE_FREEP(io_functions)

/* Runs that the kernel skipped (attach/missed_runs.h). */
uint64_t io_functions_missed(const struct io_functions *f);
