/* POST /captures: a client asks an agent for a CPU profile. The parameters are in the URL: host; pid, container or
 * service; seconds. */
#pragma once

#include "server/opamp_http.h"

#define CAPTURES_PATH "/captures"

/* An answer of listener_options, whose context is a struct opamp: to a request for CAPTURES_PATH, with a valid token.
 */
enum MHD_Result captures_http_answer(void *opamp, const struct listener_request *request);

/* Forgets captures whose time is over. To be called once a second. */
void captures_http_tick(struct opamp *o);
