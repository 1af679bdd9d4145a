/* Validates an event record: sizes add up, strings are terminated. Applied to every record before it enters a batch,
 * so later stages may trust its lengths and strings. */
#pragma once

#include <linux/types.h>

#include "probes/common/record.h"

#include <stdbool.h>

/* True when the record is valid. header->size_bytes bytes must be readable, unless it is below sizeof(struct
 * record_header). */
bool record_check(const struct record_header *header);
