/* Requests that are slow for an injected cause, compared with the delays by the machine itself in that time. */
#pragma once

#include "model/request.h"

#include <stdint.h>

/* Time that interrupts took from this machine's CPUs since boot, in ticks. */
unsigned long long taken_ticks(void);
/* Time that interrupts took since then. No thread is charged for it; an emulator or a host that pauses inflates it. */
uint64_t taken_ns(unsigned long long ticks_before);

/* Requests `target` and asserts that the injected wait is complete and that nothing but CPU and run queue time has
 * weight besides it. Retries where the machine paused as the thread was about to wait, but at most three times: a wait
 * that is never recorded fails the test. */
void expect_cause(int server, const char *target, const char *route, enum request_part_kind kind, const char *detail,
                  unsigned long long ticks_before);
