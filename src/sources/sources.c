/* The list of all sources. A new one is a line here. */
#include "sources/source.h"

/* Opened and drained from top to bottom: the lives of processes last, so that whatever happened before a sample is in
 * its batch. The links first, whose table others read. */
const struct source *const sources[] = {
    &source_link, &source_cpu, &source_off_cpu, &source_request, &source_process, NULL,
};
