/* Metrics of I/O by job and mount. */
#pragma once

#include "model/metric.h"
#include "signals/io/io_series.h"

/* Adds all series. */
void io_metrics_fill(const struct io_series *series, struct metric_set *set);

/* "read", "write", "open", ... */
const char *io_metrics_operation(uint8_t operation);
