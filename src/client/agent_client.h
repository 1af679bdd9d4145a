/* HTTP client for the API of a running agent (libcurl, jansson). Every call is blocking, with a timeout of 10 s. An
 * address is one of agent_address.h. The certificate of one with https:// is verified by SONDE_CA_FILE of the
 * environment, or else by the system's authorities.
 *
 * Errors: -ECONNREFUSED: no agent listens at `address`; -ENOPKG: libcurl is missing (a warning was logged); -EACCES: it
 * wants a token, and SONDE_TOKEN of the environment has none that it knows; -EKEYREJECTED: its
 * certificate cannot be verified; -ECONNRESET: no reply, such as from an agent that speaks TLS; -EPROTO: the status is
 * not 200; -EBADMSG: the body is not the expected JSON; -ETIMEDOUT, -EINVAL, -EIO, -ENOMEM. */
#pragma once

#include "base/buf.h"
#include "client/agent_event.h"
#include "client/agent_gpu.h"
#include "model/coverage.h"
#include "model/request.h"
#include "model/request_route.h"
#include "model/service_call.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fetches at most `max` of the chosen requests of the last `seconds`. The caller frees each element with request_free
 * and the array with free. */
int agent_client_requests(const char *address, uint64_t seconds, size_t max, enum request_choice which,
                          struct coverage *ret_coverage, struct request ***ret, size_t *ret_count);

/* Fetches the routes with requests in the last `seconds`. The caller frees the array. */
int agent_client_routes(const char *address, uint64_t seconds, struct coverage *ret_coverage,
                        struct request_route **ret, size_t *ret_count);

/* Fetches the calls between services in the last `seconds`. The caller frees the array. */
int agent_client_calls(const char *address, uint64_t seconds, struct coverage *ret_coverage, struct service_call **ret,
                       size_t *ret_count);

/* Fetches the events of the node in the last `seconds`, newest first. The caller frees the array. */
int agent_client_events(const char *address, uint64_t seconds, struct coverage *ret_coverage, struct agent_event **ret,
                        size_t *ret_count);

/* Fetches what the agent knows about the processes on GPUs. */
int agent_client_gpu(const char *address, struct agent_gpu *ret);

struct agent_state {
    char detail[16];                  /* level of detail: "full", or a lower one that budget.one_cpu forces */
    char reduced[512], complete[512]; /* signals at this level, in words, separated by "; " */
    char outlook[192]; /* why it may use more CPU time than its limit now, and how long; "": it does not */
    double one_cpu_share, one_cpu_share_allowed; /* its CPU time, as a share of one CPU */
    uint64_t memory_bytes, memory_bytes_allowed;
    uint64_t lost_samples; /* dropped since its start: the rings or the memory for them were full */
    uint64_t uptime_ns;
    uint64_t now_ms; /* on the clock of the region API; 0: the agent does not report it */
};

int agent_client_state(const char *address, struct agent_state *ret);

/* Fetches /api/v1/profile?`query` ("format=pprof&from=...") into `ret_body`. On -EPROTO `ret_body` holds the agent's
 * error text. */
int agent_client_profile(const char *address, const char *query, struct buf *ret_body);
