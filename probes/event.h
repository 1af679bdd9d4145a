/* What the weights of a recording's CPU samples are, when they are not nanoseconds (`--event`): the first record of its
 * file. The kernel sends none; who writes the file does. */
#pragma once

#include "probes/common/record.h"

#define EVENT_NAME_BYTES 256

struct event_record { /* RECORD_EVENT */
    struct record_header h;
    __u64 period;   /* events that a sample stands for; 0: it stands for its own bytes */
    __u32 is_bytes; /* what is added up are bytes, not events */
    __u32 reserved;
    char name[EVENT_NAME_BYTES]; /* ends in NUL: "page-faults", "sched:sched_switch" */
};
