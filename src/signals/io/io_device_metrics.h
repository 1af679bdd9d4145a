/* Metrics of block devices by job. */
#pragma once

#include "model/metric.h"
#include "signals/io/io_devices.h"

/* Adds all series. */
void io_device_metrics_fill(const struct io_devices *devices, struct metric_set *set);
