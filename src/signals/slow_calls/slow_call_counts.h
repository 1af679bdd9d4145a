/* Slow waits by service and system call, for the metrics; and which of a service's waits is worth an event: the slowest
 * of a minute. Bounded: of more services or calls, the further ones are one. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stdint.h>

struct metric_set;
struct slow_call_counts;

/* The caller frees `*ret`. -ENOMEM. */
int slow_call_counts_new(struct slow_call_counts **ret);
void slow_call_counts_free(struct slow_call_counts *c);
DEFINE_FREEP(slow_call_counts)

/* Counts a wait of `ns` that ended at `end_ns`, in order of time. Returns whether it is an event: it is slower than the
 * service's last event, or that is a minute ago; and there are not too many in this second (event_rate.h). `*ret_count`
 * is then the number of the service's waits since its last event, with this one. */
bool slow_call_counts_add(struct slow_call_counts *c, const char *service, const char *call, uint64_t ns,
                          uint64_t end_ns, uint64_t *ret_count);
void slow_call_counts_metrics(const struct slow_call_counts *c, struct metric_set *set);
