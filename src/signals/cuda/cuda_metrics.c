/* See cuda_metrics.h. */
#include "signals/cuda/cuda_metrics.h"

#include "signals/process_labels.h"

#include <string.h>

const char *cuda_call_name(size_t call)
{
    static const char *const names[CUDA_CALLS] = {"launch", "graph_launch", "copy", "allocation", "synchronize"};
    return names[call];
}

void cuda_metrics_put(const struct cuda_process *process, uint32_t counted, const struct metric_label *labels,
                      struct metric_set *set)
{
    struct metric_label with_call[PROCESS_LABELS + 1];
    memcpy(with_call, labels, PROCESS_LABELS * sizeof(*labels));
    for (size_t call = 0; call < CUDA_CALLS; call++) {
        if (!(counted & 1u << call))
            continue;
        with_call[PROCESS_LABELS] = (struct metric_label){"call", cuda_call_name(call)};
        metric_add(set, "sonde_gpu_process_calls", METRIC_COUNTER, "",
                   "Calls of libcuda that a process has begun, by kind.", (double)process->calls[call], with_call,
                   PROCESS_LABELS + 1);
    }
    if (counted & 1u << CUDA_CALL_SYNCHRONIZE)
        metric_add(set, "sonde_gpu_process_synchronize_seconds", METRIC_COUNTER, "seconds",
                   "Time that the threads of a process have waited for the GPU in calls of libcuda.",
                   (double)process->synchronize_ns / 1e9, labels, PROCESS_LABELS);
}
