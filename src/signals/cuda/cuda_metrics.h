/* The metrics of one process's calls of libcuda. */
#pragma once

#include "model/metric.h"

#include <linux/types.h>

#include "probes/cuda.h"

#include <stddef.h>
#include <stdint.h>

/* "launch", "graph_launch", ...: the value of the label `call`. Static. */
const char *cuda_call_name(size_t call);

/* Adds the kinds of calls in `counted` (a bit `1u << enum cuda_call` for each): the others are not known. `labels`: of
 * the process, PROCESS_LABELS of them. */
void cuda_metrics_put(const struct cuda_process *process, uint32_t counted, const struct metric_label *labels,
                      struct metric_set *set);
