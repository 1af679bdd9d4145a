/* What is known of programs from the moment of their start (probes/process.bpf.c). Part of the process source; pipeline
 * thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/program_start.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct program_starts;

/* Attaches. The caller frees `*ret`. -errno: the kernel refuses the program. */
int program_starts_new(struct program_starts **ret);
void program_starts_free(struct program_starts *s);
DEFINE_FREEP(program_starts)

/* The program that this process has started at or after `since_ns` (CLOCK_MONOTONIC). False: it is not known. */
bool program_starts_find(const struct program_starts *s, uint32_t pid, uint64_t since_ns, struct program_start *ret);

void program_starts_runs(const struct program_starts *s, uint64_t *ret_runs, uint64_t *ret_run_time_ns);
size_t program_starts_bytes(const struct program_starts *s);
