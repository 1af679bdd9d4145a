/* Traffic that the request programs could not read: reads their counts, and passes on the increments. Pipeline thread
 * only. */
#pragma once

#include "base/cleanup.h"

#include <stdint.h>

struct request_opaque_counts;
struct signal_services;

/* `services` and `source`, an opened request source, are borrowed. The caller frees `*ret`. -ENOMEM. */
int request_opaque_counts_new(const struct signal_services *services, void *source, struct request_opaque_counts **ret);
void request_opaque_counts_free(struct request_opaque_counts *o);
DEFINE_FREEP(request_opaque_counts)

/* Four times a second, whenever it is called: emits the traffic since the last time. Entries without traffic for ten
 * minutes give up their place. */
void request_opaque_counts_sweep(struct request_opaque_counts *o, uint64_t now_ns);
