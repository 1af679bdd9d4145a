/* Ports of this node's servers whose traffic cannot be read, with their bytes over the last minutes. Bounded.
 * Thread-safe: the pipeline adds, HTTP threads read. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "model/opaque_port.h"

#include <stddef.h>
#include <stdint.h>

#define OPAQUE_PORTS_MAX 64 /* by port, process and protocol; the traffic of others is that of port 0 */

struct opaque_ports;

/* The caller frees `*ret`. -ENOMEM. */
int opaque_ports_new(struct opaque_ports **ret);
void opaque_ports_free(struct opaque_ports *o);
DEFINE_FREEP(opaque_ports)

/* Times must not decrease from call to call. */
void opaque_ports_add(struct opaque_ports *o, const struct opaque_traffic *traffic);

/* Writes at most `max` of the ports with traffic in [since, now), those with the most bytes first, at most five minutes
 * back and to whole slots of five seconds. Returns how many; `*ret_omitted`: how many further ones there are. */
size_t opaque_ports_list(struct opaque_ports *o, uint64_t since_ns, uint64_t now_ns, struct opaque_port *ret,
                         size_t max, size_t *ret_omitted);

void opaque_ports_metrics(struct opaque_ports *o, struct metric_set *set);
