/* Observes a process that may hang, for `sonde why --hang`: the stacks of its threads, its calls of libcuda, the use of
 * its GPU, and what an agent has reported. */
#pragma once

#include "base/buf.h"

#include <stdint.h>

/* Observes process `pid` for some seconds, up to 15, and appends the report (gpu_hang_put). `agent_address`: an agent
 * that may have reported a hang; one that does not answer is left out. Needs the agent's rights. 0; -ESRCH: there is no
 * such process (logged); -ECANCELED: a signal ended it; -errno, logged where nothing could be attached. */
int gpu_hang_observe(uint32_t pid, const char *agent_address, struct buf *out);
