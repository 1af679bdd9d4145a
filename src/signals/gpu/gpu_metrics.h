/* Metrics of GPUs: OpenTelemetry's hw.* where it defines them, else sonde_gpu_*. */
#pragma once

#include "model/metric.h"
#include "signals/gpu/gpu_state.h"

struct processes;

/* `processes` NULL: services of processes are not known. A value that the driver does not know has no point. */
void gpu_metrics_put(const struct gpu_state *state, struct processes *processes, struct metric_set *set);
