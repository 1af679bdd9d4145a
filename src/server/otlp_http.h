/* OTLP over HTTP: /v1/traces, /v1/logs, /v1/metrics and /v1development/profiles, in protobuf or JSON, compressed or
 * not. */
#pragma once

#include "server/listener.h"

/* An answer of listener_options, whose context is a struct receiver. */
enum MHD_Result otlp_http_answer(void *receiver, const struct listener_request *request);
