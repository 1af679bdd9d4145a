/* Whether processes may hold a runtime whose code the kernel half walks by what it says of itself (Node, Java:
 * interpreters.bpf.h): to verify and load the programs for that takes longer than a short recording of something else
 * costs in all. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct processes;

/* At present, by the names and sizes of the code that they map; true where it cannot be told, and of a process that has
 * children. Pipeline thread. */
bool runtimes_may_be_in(struct processes *processes, const uint32_t *pids, size_t count);
