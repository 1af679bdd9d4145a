/* What `sonde io` and `sonde io report` observed: all of the time, less what their attach method does not see. */
#pragma once

#include "model/attach.h"
#include "model/coverage.h"

#include <stdint.h>

/* `attached`: the attach method in use. */
void io_coverage_set(const struct attach_entry *attached, uint64_t duration_ns, struct coverage *ret);
