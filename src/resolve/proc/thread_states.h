/* What the threads of a process do at this moment, as /proc has it. */
#pragma once

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

/* Appends a thread after the other, at most `max` of them: "4711 python3 S futex_wait_queue; 4712 worker R". That is
 * its ID, name and state, and the function of the kernel in which it waits, where the kernel says so. Thread `first`
 * comes first. Nothing if the process has ended. */
void thread_states_put(uint32_t pid, uint32_t first, size_t max, struct buf *out);
