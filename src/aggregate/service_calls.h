/* Which services of this node call which others, over the last minutes. Bounded. Thread-safe: the pipeline adds, HTTP
 * threads read. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "model/service_call.h"

#include <stddef.h>
#include <stdint.h>

#define SERVICE_CALLS_MAX     128 /* by caller, called address, protocol and kind; further ones are counted together */
#define SERVICE_CALLS_SECONDS 300 /* how far back they are kept */

struct service_calls;

/* The caller frees `*ret`. -ENOMEM. */
int service_calls_new(struct service_calls **ret);
void service_calls_free(struct service_calls *s);
DEFINE_FREEP(service_calls)

/* Times must not decrease from call to call. */
void service_calls_add(struct service_calls *s, const struct service_call_traffic *traffic);

/* The calls in [since, now), back to whole slots of twenty seconds; those waited for longest first. Those without room
 * of their own have the client "other". The caller frees the array. -ENOMEM. */
int service_calls_list(struct service_calls *s, uint64_t since_ns, uint64_t now_ns, struct service_call **ret,
                       size_t *ret_count);

void service_calls_metrics(struct service_calls *s, struct metric_set *set);
