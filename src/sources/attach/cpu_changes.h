/* Reports CPUs that went offline, from kernel uevents. A CPU that goes offline and returns between two reads of the
 * online list has lost its perf events, and only uevents reveal that. */
#pragma once

#include "sources/attach/cpu_list.h"

/* Returns a socket for cpu_changes_take, owned by the caller, or a negative errno (no network namespace owned by the
 * initial user namespace, out of memory). */
int cpu_changes_open(void);

/* The CPUs that went offline since the last call; all CPUs when the socket lost messages. Never blocks. */
void cpu_changes_take(int fd, struct cpu_list *ret_gone);

/* Extracts the CPU number from an offline uevent; -ENOENT: another message. `text` ends with a NUL or after `size`
 * bytes. */
int cpu_changes_parse(const char *text, size_t size, unsigned *ret_cpu);
