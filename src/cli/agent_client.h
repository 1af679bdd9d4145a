/* Asks a running agent over its HTTP API (libcurl, jansson). */
#pragma once

#include "model/request.h"

#include <stddef.h>
#include <stdint.h>

/* The slowest requests of the last `seconds`; the caller frees array and each. -ECONNREFUSED: nobody listens there. */
int agent_client_requests(const char *address, uint64_t seconds, size_t max, struct request ***ret, size_t *ret_count);

struct agent_state {
    char detail[16];     /* "full", or what budget.cpu left of it */
    uint64_t uptime_ns;
};

int agent_client_state(const char *address, struct agent_state *ret);
