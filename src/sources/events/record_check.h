/* Whether a record is what its header says: sizes that add up, texts that end. Asked of every record before
 * it goes into a batch, so that whatever comes after may follow lengths and strings without a second look. */
#pragma once

#include <linux/types.h>

#include "probes/common/record.h"

#include <stdbool.h>

/* header->size_bytes bytes must be readable, unless it is below sizeof(struct record_header). */
bool record_check(const struct record_header *header);
