/* Metrics as text: OpenMetrics 1.0 (with # UNIT, # EOF) or Prometheus' older text format, as the scraper asks. */
#pragma once

#include "base/buf.h"
#include "model/metric.h"

#include <stdbool.h>

int openmetrics_write(const struct metric_set *set, bool openmetrics, struct buf *out);
/* Whether an Accept header asks for OpenMetrics. */
bool openmetrics_accepted(const char *accept);
const char *openmetrics_content_type(bool openmetrics);
