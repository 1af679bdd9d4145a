/* The level of detail of an agent. */
#pragma once

/* Logs a warning if the agent at `address` records less than everything, to keep to its CPU limit. */
void agent_limits_report(const char *address);
