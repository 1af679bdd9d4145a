/* What a process of ours that does what may wait is like: forked from the agent, ended by nobody but the agent
 * and with it, and holding nothing of the agent's that it does not need: a lock or a pipe that a process which
 * cannot be ended kept open would be held up with it. */
#pragma once

#include <stddef.h>

/* Closes all descriptors but `fds`, which it sorts; the standard ones lead nowhere. */
void helper_process_keep_only(int *fds, size_t count);

/* `name`: as ps shows it, 15 bytes at most. Ends the process if it cannot leave the agent's folder. */
void helper_process_become(const char *name);
