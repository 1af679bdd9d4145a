/* The profiles that a server asks for by OpAMP, one at a time: the request is checked, the samples of those seconds
 * are read from the agent's windows, which are filled anyway, and are sent as OTLP with the capture's id. Used by the
 * thread of opamp_client.h. */
#pragma once

#include "send/opamp_client.h"

#define OPAMP_CAPTURE_SETTLE_NS 2000000000ull /* until the windows have the last samples */

struct opamp_captures;

/* `*ret` is NULL if no captures are configured. All pointers are borrowed, except `config`. */
int opamp_captures_new(const struct config *config, const struct opamp_source *source, const struct export_io *io,
                       struct export_end *end, struct opamp_captures **ret);
void opamp_captures_free(struct opamp_captures *c);
DEFINE_FREEP(opamp_captures)

/* The server asks for a capture. Ignored if it is the last one again, as the server has not read its state yet, or if
 * another one is running: the server asks again with the next answer. */
void opamp_captures_start(struct opamp_captures *c, const struct opamp_capture *capture, uint64_t now_ns);
/* Sends the capture if its time is over: returns when its profile is delivered or given up, after 30 s at most. */
void opamp_captures_finish(struct opamp_captures *c, uint64_t now_ns);
/* How long it is until the running capture can be sent; UINT64_MAX: none is running. */
uint64_t opamp_captures_left_ns(const struct opamp_captures *c, uint64_t now_ns);

/* The state that the server does not have yet; NULL: none. */
const struct opamp_capture_state *opamp_captures_news(const struct opamp_captures *c);
/* The server has that state. */
void opamp_captures_reported(struct opamp_captures *c);
