/* Metrics of I/O by job and mount. */
#pragma once

#include "model/metric.h"
#include "signals/io/io_series.h"

/* Adds all series. `counts_misses`: misses of the page cache are known. */
void io_metrics_fill(const struct io_series *series, bool counts_misses, struct metric_set *set);

/* Adds the durations of `c` to the histogram `name`. */
void io_metrics_durations(struct metric_set *set, const char *name, const char *help, const struct io_counters *c,
                          const struct metric_label *labels, size_t label_count);

/* "read", "write", "open", ... */
const char *io_metrics_operation(uint8_t operation);
