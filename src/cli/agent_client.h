/* Asks a running agent over its HTTP API (libcurl, jansson). */
#pragma once

#include "base/buf.h"
#include "model/request.h"

#include <stddef.h>
#include <stdint.h>

/* The slowest requests of the last `seconds`; the caller frees array and each. -ECONNREFUSED: nobody listens there. */
int agent_client_requests(const char *address, uint64_t seconds, size_t max, struct request ***ret, size_t *ret_count);

struct agent_state {
    char detail[16]; /* "full", or what budget.cpu left of it */
    uint64_t uptime_ns;
    uint64_t now_ms; /* of the clock that its regions are of; 0: it does not say */
};

int agent_client_state(const char *address, struct agent_state *ret);

/* What /api/v1/profile answers to `query`, "format=pprof&from=...". -EPROTO: it refused, and `ret_body` has the reason.
 */
int agent_client_profile(const char *address, const char *query, struct buf *ret_body);
