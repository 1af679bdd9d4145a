/* Decides which send failures are logged: the first, and then at most one every five minutes; a refusal also if the
 * failure logged before it had another reason; partial rejections like failures. Pure: the caller logs. */
#pragma once

#include "otlp/transport.h"

#include <stdbool.h>
#include <stdint.h>

/* Initially all zero. Times are CLOCK_MONOTONIC; 0: never. */
struct send_warnings {
    uint64_t failure_ns, refusal_ns, rejection_ns; /* when each was last logged */
    char why[OTLP_TRANSPORT_WHY_SIZE];             /* of the failure logged last */
    bool is_failing;                               /* a failure was logged, and no recovery since */
};

/* An attempt failed. Returns true if it should be logged. */
bool send_warnings_failure(struct send_warnings *w, const char *why, uint64_t now_ns);
/* The receiver refused a packet, after send_warnings_failure for the same attempt. Returns true if it should be
 * logged. */
bool send_warnings_refusal(struct send_warnings *w, const char *why, uint64_t now_ns);
/* The receiver rejected a part of a packet that it accepted. Returns true if it should be logged. */
bool send_warnings_rejection(struct send_warnings *w, uint64_t now_ns);
/* A packet was accepted. Returns true if the recovery should be logged. */
bool send_warnings_accepted(struct send_warnings *w);
