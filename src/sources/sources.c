/* The list of all sources. */
#include "sources/source.h"

/* Opened and drained in this order. Links come first because other sources read their table. Process lifecycle events
 * come last: whatever happened to a process before a sample is then in that sample's batch or an earlier one. */
const struct source *const sources[] = {
    &source_link, &source_cpu, &source_off_cpu, &source_request, &source_process, NULL,
};
