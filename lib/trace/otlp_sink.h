/* The sink of mode opentelemetry: a batch span processor and its exporter. */
#pragma once

#include "sink.h"

#include "../otlp/settings.h"
#include "../otlp/transport.h"

struct trace_writer;

#define TRACE_OTLP_URL "http://localhost:4318/v1/traces"

/* Of everything that libsonde sends: the program that it serves does not wait long for its end. */
#define TRACE_OTLP_USER_AGENT   "libsonde/" SONDE_VERSION
#define TRACE_OTLP_ATTEMPTS_MAX 5
#define TRACE_OTLP_PAUSE_MAX_MS 4000

const char *trace_otlp_url(const struct sonde_trace_config *config);
/* gRPC only where it is asked for and the URL has no path: with one it is that of a receiver of HTTP, and what the
 * environment says is meant for others. */
enum otlp_protocol trace_otlp_protocol(const struct sonde_trace_config *config);

/* All but the output are borrowed. -EINVAL with the reason in `why`: the URL is none; -ENOMEM. */
int trace_otlp_sink_new(const struct sonde_trace_config *config, const struct otlp_transport *transport,
                        struct trace_writer *w, struct trace_sink **ret_sink, char *why, size_t why_size);
