/* Reads what an agent reports over OpAMP (AgentToServer). Pure; the bytes are untrusted, and borrowed. */
#pragma once

#include "base/cursor.h"
#include "lib/otlp/opamp_fields.h"

#include <stdbool.h>
#include <stdint.h>

#define OPAMP_PROBLEMS_BYTES 2048

struct opamp_report {
    struct cursor instance_uid; /* OPAMP_UID_BYTES */
    uint64_t sequence;
    bool is_last; /* the agent ends */

    bool has_description;
    struct cursor description; /* with attributes in DESCRIPTION_IDENTIFYING and DESCRIPTION_OTHERS */
    struct cursor service, version, host, kernel, machine; /* attributes of it; empty: unknown */

    bool has_health, is_healthy;
    uint64_t start_unix_ns; /* of the agent; 0: unknown */
    struct cursor status;
    char problems[OPAMP_PROBLEMS_BYTES]; /* "component: error; ..." of what is not healthy, one line; cut to fit */
    struct cursor detail;                /* of Sonde's budget; empty: unknown */
    bool has_losses;
    uint64_t losses;

    bool takes_captures; /* it says so with its description */
    bool has_capture;
    struct cursor capture_id; /* of the capture whose state this is */
    uint64_t capture_state;   /* CAPTURE_RUNNING and so on */
    struct cursor capture_why;
    uint64_t capture_samples;

    struct cursor config; /* in force, the first file of it; empty: not in this message */
};

/* 0. -EBADMSG: the message is invalid, or has no valid instance UID. */
int opamp_report_read(struct cursor message, struct opamp_report *ret);
