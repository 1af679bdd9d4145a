/* The unit of a recording's CPU samples if it is not nanoseconds (`--event`): the first record of the file. Written by
 * the recorder, never by the kernel. */
#pragma once

#include "probes/common/record.h"

enum { RECORD_EVENT = 6 }; /* struct event_record: in files only, for the CPU samples that follow */

#define EVENT_NAME_BYTES 256

enum event_unit { EVENT_UNIT_COUNT, EVENT_UNIT_BYTES, EVENT_UNIT_NANOSECONDS };

struct event_record { /* RECORD_EVENT */
    struct record_header h;
    __u64 period; /* events per sample; 0: a sample carries its own number of units */
    __u32 unit;   /* enum event_unit */
    __u32 reserved;
    char name[EVENT_NAME_BYTES]; /* NUL-terminated: "page-faults", "sched:sched_switch" */
};
