/* What an agent's list of requests lacks. */
#pragma once

#include <stdint.h>

/* Logs it where the agent at `address` is over its budget, or has run for less than `last_ns`. */
void agent_limits_report(const char *address, uint64_t last_ns);
