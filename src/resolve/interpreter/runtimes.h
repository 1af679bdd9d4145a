/* Detects runtimes whose code the BPF side walks by the layouts they publish (Node, Java: interpreters.bpf.h). The
 * programs for these runtimes are loaded only if needed: verifying them takes longer than a short recording of
 * something else. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct processes;

/* Whether any of the processes may hold such a runtime at present, by the names and sizes of its executable mappings.
 * True if that cannot be determined, if a process has children, or if `count` is 0. Pipeline thread. */
bool runtimes_may_be_in(struct processes *processes, const uint32_t *pids, size_t count);
