/* What sources have in common; see source.h. */
#include "sources/source.h"

void source_put_runs(struct metric_set *set, const char *program, uint64_t runs, uint64_t run_time_ns)
{
    metric_add(set, "sonde_self_bpf_run_time_seconds", METRIC_COUNTER, "seconds",
               "CPU time spent in Sonde's BPF programs", (double)run_time_ns / 1e9,
               METRIC_LABELS({"program", program}));
    metric_add(set, "sonde_self_bpf_runs", METRIC_COUNTER, "", "Runs of Sonde's BPF programs", (double)runs,
               METRIC_LABELS({"program", program}));
}
