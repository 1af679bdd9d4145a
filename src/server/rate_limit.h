/* How many requests a second one client may make. A client that was quiet may make RATE_LIMIT_BURST_S seconds' worth at
 * once. Thread-safe; memory is bounded: of more than 16,384 clients, those that made the fewest requests are forgotten,
 * and may begin anew. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stdint.h>

#define RATE_LIMIT_BURST_S 10
#define RATE_LIMIT_MAX     1000000 /* requests a second */

struct rate_limit;

/* `per_second`: requests of one client; 0: any number. `now_ns` is a clock. 0 or -ENOMEM. */
int rate_limit_new(unsigned per_second, uint64_t (*now_ns)(void), struct rate_limit **ret);
void rate_limit_free(struct rate_limit *l);
DEFINE_FREEP(rate_limit)

/* Whether the client may make a request now; then it is counted as made. */
bool rate_limit_allows(struct rate_limit *l, uint64_t client);
/* Requests that were not allowed. */
uint64_t rate_limit_refused(struct rate_limit *l);
