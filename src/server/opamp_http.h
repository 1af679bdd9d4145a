/* OpAMP over HTTP: agents post what they are and how they are, and the server stores it as rows of agent_reports.
 * Answers ask for captures. */
#pragma once

#include "server/agents.h"
#include "server/captures.h"
#include "server/listener.h"
#include "server/receiver.h"

#define OPAMP_BODY_MAX_BYTES ((size_t)1 << 20) /* of a report, compressed or not */
#define OPAMP_AGENTS_MAX     10000

struct opamp {
    struct agents *agents;
    struct captures *captures;
    struct receiver *receiver;
    uint64_t (*monotonic_ns)(void);
};

/* An answer of listener_options, whose context is a struct opamp: to a request for OPAMP_PATH. */
enum MHD_Result opamp_http_answer(void *opamp, const struct listener_request *request);
