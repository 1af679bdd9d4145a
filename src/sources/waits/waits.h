/* Waits of servers' threads: the source of signal "waits". Pipeline thread only. */
#pragma once

#include "sources/source.h"

#include <stddef.h>
#include <stdint.h>

extern const struct source source_waits;

/* Records the waits of the threads of the processes `pids` from now on, and of no others. Processes whose place is
 * taken are left out: places are for four times as many as WAITS_PROCESSES_MAX. */
void waits_source_watch(void *waits_source, const uint32_t *pids, size_t count);

/* How the programs see waits; for tests: WAITS_BEST elsewhere. */
enum waits_method { WAITS_AT_RETURN, WAITS_AT_SWITCHES, WAITS_BEST };

/* As the source's open, by this method alone unless it is WAITS_BEST. */
int waits_source_open_by(const struct source_services *services, struct attach_report *report, enum waits_method method,
                         void **ret_self);
