/* Metrics as text: OpenMetrics 1.0 or the Prometheus text format 0.0.4, as negotiated with the scraper. */
#pragma once

#include "base/buf.h"
#include "model/metric.h"

#include <stdbool.h>

/* Appends all families. 0, or the buffer's error. */
int openmetrics_write(const struct metric_set *set, bool openmetrics, struct buf *out);
/* Whether an Accept header (NULL: none) prefers OpenMetrics. */
bool openmetrics_accepted(const char *accept);
const char *openmetrics_content_type(bool openmetrics);
