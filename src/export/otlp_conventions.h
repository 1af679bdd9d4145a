/* Metrics that OpenTelemetry's semantic conventions define, by their names on /metrics: over OTLP they have the names
 * of the conventions, and the service that they describe is their resource. */
#pragma once

#include <stdbool.h>

#define OTLP_SERVICE_LABEL "service_name"

/* The name of a metric in the conventions; NULL: they do not define it, and it keeps its own. Static string. */
const char *otlp_convention_metric(const char *family);

/* The name of such a metric's label: "http.route" for "http_route". `*ret_is_number`: the value is an integer. Static
 * string; a label that the conventions do not define keeps its name. */
const char *otlp_convention_attribute(const char *label, bool *ret_is_number);
