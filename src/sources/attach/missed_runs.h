/* Runs of BPF programs that the kernel skipped, because the same program was at work on that CPU already: what sources
 * count as LOSS_MISSED. It counts them itself, from 5.12 on, for programs of tracepoints and functions; those of perf
 * events that it skips (from within another program, or a change to a map) it counts on no kernel. */
#pragma once

#include <stdint.h>

struct bpf_object;

uint64_t missed_runs(struct bpf_object *object);
