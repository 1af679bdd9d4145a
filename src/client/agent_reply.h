/* What an agent replies about requests, routes, calls and events, decoded from the JSON of export/requests_json.h,
 * export/request_routes_json.h, export/service_calls_json.h, export/node_event_json.h and export/coverage_json.h.
 * Members that are missing or of another type are empty. */
#pragma once

#include "base/buf.h"
#include "client/agent_event.h"
#include "model/coverage.h"
#include "model/request.h"
#include "model/request_route.h"
#include "model/service_call.h"

#include <stddef.h>

/* The caller frees each element with request_free, and the array. -EBADMSG, -ENOMEM. */
int agent_reply_requests(const struct buf *body, struct coverage *ret_coverage, struct request ***ret,
                         size_t *ret_count);
/* The caller frees the array. -EBADMSG, -ENOMEM. */
int agent_reply_routes(const struct buf *body, struct coverage *ret_coverage, struct request_route **ret,
                       size_t *ret_count);
/* The caller frees the array. -EBADMSG, -ENOMEM. */
int agent_reply_calls(const struct buf *body, struct coverage *ret_coverage, struct service_call **ret,
                      size_t *ret_count);
/* The caller frees the array. -EBADMSG, -ENOMEM. */
int agent_reply_events(const struct buf *body, struct coverage *ret_coverage, struct agent_event **ret,
                       size_t *ret_count);
