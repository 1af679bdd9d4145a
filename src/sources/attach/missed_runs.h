/* Runs of BPF programs that the kernel skipped because the same program was already running on that CPU; sources count
 * them as LOSS_MISSED. Since Linux 5.12 the kernel counts them for programs on tracepoints and functions. Skipped runs
 * of perf event programs (from within another program or a map update) are counted by no kernel. */
#pragma once

#include <stdint.h>

struct bpf_object;
struct bpf_program;

/* 0 for a program that cannot be queried. */
uint64_t missed_runs_of(const struct bpf_program *program);

/* The sum over all loaded programs of `object`. */
uint64_t missed_runs(struct bpf_object *object);
