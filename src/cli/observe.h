/* Observing requests without an agent, for `sonde why`. */
#pragma once

#include "aggregate/requests.h"
#include "model/coverage.h"

#include <stdint.h>

#define OBSERVE_MEMORY_BYTES (64 << 20)

/* Observes the requests of this node until `duration_ns` has passed or Ctrl-C, and adds them to `requests`;
 * `ret_coverage`: the observed part of that time, and the traffic that could not be read. Needs the
 * agent's rights. 0, or -errno, logged where nothing could be attached. */
int observe_requests(uint64_t duration_ns, struct requests *requests, struct coverage *ret_coverage);
