/* Losses and metrics of the publisher; see unwind_publisher.h. */
#include "pipeline/published.h"
#include "pipeline/unwind_publisher.h"
#include "sources/tables/unwind_tables.h"

void unwind_publisher_losses(const struct unwind_publisher *p, struct losses *losses)
{
    losses->count[LOSS_MAP_FULL] += p->refused;
}

void unwind_publisher_metrics(struct unwind_publisher *p, struct metric_set *set)
{
    struct unwind_builder_stats stats;
    unwind_builder_stats(p->builder, &stats);
    const struct {
        const char *name, *unit, *help;
        enum metric_type type;
        double value;
    } points[] = {
        {"sonde_self_unwind_processes", "", "Processes whose mappings are published to the BPF programs.", METRIC_GAUGE,
         HASH_COUNT(p->processes)},
        {"sonde_self_unwind_objects", "", "Executable files known to the unwind publisher.", METRIC_GAUGE,
         HASH_COUNT(p->objects)},
        {"sonde_self_unwind_table_bytes", "bytes", "Kernel memory of unwind tables.", METRIC_GAUGE,
         (double)unwind_tables_bytes(p->tables)},
        {"sonde_self_unwind_puts", "", "Unwind tables published to the kernel.", METRIC_COUNTER, (double)p->puts},
        {"sonde_self_unwind_evictions", "", "Unwind tables evicted from the kernel to make room.", METRIC_COUNTER,
         (double)p->evictions},
        {"sonde_self_unwind_refused", "", "Unwind tables and mappings that did not fit.", METRIC_COUNTER,
         (double)p->refused},
        {"sonde_self_unwind_builds_deferred", "", "Unwind tables built by the builder thread.", METRIC_COUNTER,
         (double)stats.built},
        {"sonde_self_unwind_builds_waiting", "",
         "Executable files whose unwind tables are not built yet, to keep to a share of a CPU.", METRIC_GAUGE,
         (double)p->waiting_count},
        {"sonde_self_unwind_builds_dropped", "", "Unwind tables postponed because the builder's queue was full.",
         METRIC_COUNTER, (double)stats.dropped},
        {"sonde_self_unwind_build_seconds", "seconds", "CPU time of the builder thread.", METRIC_COUNTER,
         (double)stats.build_ns / 1e9},
    };
    for (size_t i = 0; i < array_size(points); i++)
        metric_add(set, points[i].name, points[i].type, points[i].unit, points[i].help, points[i].value,
                   METRIC_NO_LABELS);
}
