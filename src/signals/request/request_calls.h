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

/* Once a second, whenever it is called: emits the calls since the last time. Those of a process whose port is not known
 * yet wait until it is. Counts that stay the same for a minute give up their place. */
void request_calls_sweep(struct request_calls *c, uint64_t now_ns);
