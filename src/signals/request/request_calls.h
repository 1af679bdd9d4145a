/* Which services call which others: reads the kernel's counts of calls, names both ends, and passes on the increments.
 * Pipeline thread only. */
#pragma once

#include "base/cleanup.h"

#include <stdint.h>

struct request_calls;
struct served_ports;
struct signal_services;

/* `services`, `source`, an opened request source, and `served` are borrowed. The caller frees `*ret`. -ENOMEM. */
int request_calls_new(const struct signal_services *services, void *source, const struct served_ports *served,
                      struct request_calls **ret);
void request_calls_free(struct request_calls *c);
DEFINE_FREEP(request_calls)

/* Emits the calls since the last time, once a second, however often it is called. Keeps the calls of a process until
 * its port is known. Counts that do not change for a minute are removed from the table. */
void request_calls_sweep(struct request_calls *c, uint64_t now_ns);
