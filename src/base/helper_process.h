/* Setup of a helper process, which does work that may block: forked from the agent, ended only by the agent and with
 * it, and without any of the agent's resources that it does not need. A lock or a pipe held by a blocked process,
 * which cannot be killed, would stay held. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Forks a process that is connected with its parent by a SOCK_SEQPACKET socket: each of the two has one end of it. As
 * fork, it returns 0 in both; `*ret_pid` is 0 in the new process. -errno: there is no new process. */
int helper_process_fork(pid_t *ret_pid, int *ret_socket);

/* Closes all descriptors except `fds`, which it sorts; redirects the standard ones to /dev/null. */
void helper_process_keep_only(int *fds, size_t count);

/* Gives the process its name (at most 15 bytes), has it end with its parent, and replaces the agent's handling of
 * signals: no signal is blocked, and signals that ask the agent to end are ignored. Exits if it cannot change to the
 * root directory. */
void helper_process_become(const char *name);

/* Raises the limit on open descriptors to its maximum, if possible. The agent has its own limit. */
void helper_process_raise_descriptors(void);
