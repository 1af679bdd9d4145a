/* Which CPUs went, by the kernel's own notices (uevents): a CPU that went and came back between two looks at
 * the list of those online has lost its perf events, and nothing else tells. */
#pragma once

#include "sources/attach/cpu_list.h"

/* A descriptor to take from, or -errno (no network namespace of the host's user namespace, no memory). */
int cpu_changes_open(void);

/* The CPUs that went offline since the last call; all of them when notices were lost. Never waits. */
void cpu_changes_take(int fd, struct cpu_list *ret_gone);

/* The CPU that a notice says went; -ENOENT: it says something else. `text` ends within `size` bytes or with
 * them. */
int cpu_changes_parse(const char *text, size_t size, unsigned *ret_cpu);
