/* The clock of timestamps, for libsonde and for its callers. */
#include "clock.h"

#include "../export.h"

#include <sonde/trace.h>

SONDE_EXPORT uint64_t sonde_trace_now_ns(void)
{
    return trace_read_clock_ns(CLOCK_MONOTONIC);
}
