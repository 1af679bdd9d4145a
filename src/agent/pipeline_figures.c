/* What the pipeline tells of itself, and what its parts are told to do with less; see pipeline.h. */
#include "agent/pipeline_private.h"

#include "agent/trace_links.h"
#include "agent/unwind_publisher.h"
#include "resolve/kernel.h"
#include "resolve/processes.h"
#include "resolve/python.h"
#include "resolve/symbols.h"
#include "resolve/unwind_cache.h"
#include "sources/link.h"
#include "sources/offcpu.h"

void pipeline_shed(struct pipeline *p, enum source_detail detail)
{
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].source->shed)
            p->opened[i].source->shed(p->opened[i].self, detail);
}

void pipeline_trim(struct pipeline *p)
{
    unwind_cache_trim(p->unwind_cache);
    symbols_trim(p->symbols);
    if (p->publisher)
        unwind_publisher_trim(p->publisher);
}

int pipeline_record_wire_error(const struct pipeline *p)
{
    return p->record_wire_error;
}

uint64_t pipeline_samples(const struct pipeline *p)
{
    return p->samples;
}

struct off_cpu_figures pipeline_waits(const struct pipeline *p)
{
    void *off_cpu = pipeline_opened(p, &source_off_cpu);
    return off_cpu ? off_cpu_source_figures(off_cpu) : (struct off_cpu_figures){0};
}

uint64_t pipeline_kernel_bytes(const struct pipeline *p)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].source->memory_bytes)
            bytes += p->opened[i].source->memory_bytes(p->opened[i].self);
    return bytes;
}

uint64_t pipeline_run_time_ns(const struct pipeline *p)
{
    uint64_t ns = 0;
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].source->run_time_ns)
            ns += p->opened[i].source->run_time_ns(p->opened[i].self);
    return ns;
}

uint64_t pipeline_helper_cpu_ns(struct pipeline *p)
{
    return processes_helper_cpu_ns(p->processes) + link_source_helper_cpu_ns(pipeline_opened(p, &source_link));
}

void pipeline_losses(const struct pipeline *p, struct losses *ret)
{
    *ret = p->losses;
    if (p->publisher)
        unwind_publisher_losses(p->publisher, ret);
    for (size_t i = 0; i < p->opened_count; i++)
        p->opened[i].source->losses(p->opened[i].self, ret);
}

void pipeline_metrics(const struct pipeline *p, const struct losses *losses, struct metric_set *set)
{
    for (int i = 0; i < LOSS_COUNT; i++)
        metric_add(set, "sonde_self_losses", METRIC_COUNTER, "", "What was seen but not delivered whole, by reason.",
                   (double)losses->count[i], METRIC_LABELS({"reason", loss_name(i)}));
    metric_add(set, "sonde_self_samples", METRIC_COUNTER, "", "CPU samples delivered.", (double)p->samples, METRIC_NO_LABELS);
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].source->metrics)
            p->opened[i].source->metrics(p->opened[i].self, set);
    processes_metrics(p->processes, set);
    symbols_metrics(p->symbols, set);
    pythons_metrics(p->pythons, set);
    kernel_symbols_metrics(p->kernel, set);
    unwind_cache_metrics(p->unwind_cache, set);
    if (p->publisher)
        unwind_publisher_metrics(p->publisher, set);
    if (p->links)
        trace_links_metrics(p->links, set);
}
