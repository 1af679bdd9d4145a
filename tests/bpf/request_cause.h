/* Requests that are slow for a known cause, held against what the machine itself did in that time. */
#pragma once

#include "model/request.h"

#include <stdint.h>

/* What interrupts took of this machine's CPUs since it started, in ticks. */
unsigned long long taken_ticks(void);
/* What they took since then is in no account of a thread's; an emulator or host that stands still in one makes it much.
 */
uint64_t taken_ns(unsigned long long ticks_before);

/* Asks for `target` and asserts that the wait is there whole, and beside CPU and run queue nothing else of any weight.
 * Asks again where the machine stood still as the thread was about to wait; but a wait that is not seen is not seen
 * three times. */
void ask_for_cause(int way, const char *target, const char *route, enum request_part_kind kind, const char *detail,
                   unsigned long long ticks_before);
