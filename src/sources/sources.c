/* The list of all sources. A new one is a line here. */
#include "sources/source.h"

/* Drained from top to bottom: the lives of processes last, so that whatever happened before a sample is in
 * its batch. */
const struct source *const sources[] = {
    &source_cpu,
    &source_request,
    &source_process,
    NULL,
};
