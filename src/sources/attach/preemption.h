/* Whether the kernel may take the CPU from a thread while it works in the kernel. Programs at functions (fentry, fexit)
 * are then interrupted by other threads; for them, the kernel skips the same program until the first one goes on. */
#pragma once

#include <stdbool.h>

/* Of this kernel, as set now. True where that cannot be read. */
bool preemption_is_possible(void);

/* `version`: the kernel's, as uname(2) returns it. `modes`: text of sched/preempt in debugfs, "none (voluntary) full";
 * "": not readable. */
bool preemption_parse(const char *version, const char *modes);
