/* The sink of mode opentelemetry: a batch span processor with its exporter. */
#pragma once

#include "sink.h"

#include "../otlp/settings.h"
#include "../otlp/transport.h"

struct trace_writer;

#define TRACE_OTLP_URL "http://localhost:4318/v1/traces"

/* Limits of all libsonde exporters: short, so that the program's exit is not delayed for long. */
#define TRACE_OTLP_USER_AGENT   "libsonde/" SONDE_VERSION
#define TRACE_OTLP_ATTEMPTS_MAX 5
#define TRACE_OTLP_PAUSE_MAX_MS 4000

const char *trace_otlp_url(const struct sonde_trace_config *config);
/* gRPC only if requested and the URL has no path: a URL with a path names an HTTP receiver, and the
 * environment's setting is meant for others. */
enum otlp_protocol trace_otlp_protocol(const struct sonde_trace_config *config);

/* Creates the sink; all arguments except outputs are borrowed. -EINVAL with the reason in `why`: invalid URL;
 * -ENOMEM. */
int trace_otlp_sink_new(const struct sonde_trace_config *config, const struct otlp_transport *transport,
                        struct trace_writer *w, struct trace_sink **ret_sink, char *why, size_t why_size);
