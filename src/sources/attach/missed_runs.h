/* Runs of BPF programs that the kernel skipped because the same program was already running on that CPU; sources count
 * them as LOSS_MISSED. Since Linux 5.12 the kernel counts them for programs on tracepoints and functions. Skipped runs
 * of perf event programs (from within another program or a map update) are counted by no kernel. */
#pragma once

#include <stdint.h>

struct bpf_object;

/* The sum over all loaded programs of `object`; programs that cannot be queried count as 0. */
uint64_t missed_runs(struct bpf_object *object);
