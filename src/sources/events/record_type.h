/* How one kind of event record is validated and consumed. */
#pragma once

#include <linux/types.h>

#include "probes/common/record.h"

#include <stdbool.h>

struct record_type {
    __u16 kind; /* RECORD_...; 0 ends a table */

    /* True when the record is valid: sizes add up, strings are terminated. header->size_bytes bytes are readable, at
     * least a header and at most RECORD_MAX_BYTES, a multiple of 8. Called once for every record, before it enters a
     * batch: later stages may trust its lengths and strings. */
    bool (*is_valid)(const struct record_header *header);

    /* Consumes a valid record. `self` is the owner of the table that has this entry. */
    void (*take)(void *self, const struct record_header *header);
};

/* Validates a record of any kind. Unknown kinds are rejected: a recording from a newer Sonde fails with an error
 * instead of being misread. */
typedef bool record_check(const struct record_header *header);
