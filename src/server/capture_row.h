/* The rows of the table captures: who asked for a capture, and what became of it. */
#pragma once

#include "base/cursor.h"
#include "server/captures.h"
#include "server/receiver.h"

/* What happened to a capture. */
struct capture_event {
    const char *state; /* "asked", "running", "done", ... */
    struct cursor why; /* text of an agent */
    bool has_samples;
    uint64_t samples;
};

/* Stores a row. 0 or -errno that receiver_failure explains. */
int capture_row_store(struct receiver *receiver, const struct capture *capture, const struct capture_event *event);
/* The name of CAPTURE_RUNNING and so on; NULL: there is no such state. */
const char *capture_state_name(uint64_t state);
