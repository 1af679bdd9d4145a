/* Statistics and load control of the pipeline; see pipeline.h. */
#include "pipeline/pipeline_private.h"

#include "base/log.h"
#include "pipeline/pod_watch.h"
#include "pipeline/thread_contexts.h"
#include "pipeline/unwind_publisher.h"
#include "resolve/interpreter/interpreters.h"
#include "resolve/jit/jit.h"
#include "resolve/kernel/kernel.h"
#include "resolve/lines/native_lines.h"
#include "resolve/process/processes.h"
#include "resolve/symbols/symbols.h"
#include "resolve/unwind/unwind_cache.h"

#include <errno.h>

void pipeline_shed(struct pipeline *p, enum source_detail detail)
{
    for (size_t i = 0; i < p->opened_count; i++) {
        const struct opened_signal *o = &p->opened[i];
        int r = o->source && o->signal->source->shed ? o->signal->source->shed(o->source, detail) : 0;
        if (r < 0)
            log_errno(r, "source %s: its level of detail cannot be changed", o->signal->source->name);
        if (o->self && o->signal->shed)
            o->signal->shed(o->self, detail);
    }
}

unsigned pipeline_detail_levels(const struct pipeline *p)
{
    unsigned levels = 0;
    for (size_t i = 0; i < p->opened_count; i++) {
        const struct opened_signal *o = &p->opened[i];
        for (const struct source_level *l = o->source ? o->signal->source->levels : NULL; l && l->what; l++)
            levels |= 1u << l->from;
        for (const struct source_level *l = o->self ? o->signal->levels : NULL; l && l->what; l++)
            levels |= 1u << l->from;
    }
    return levels;
}

static void each_level_of(const struct source_level *levels, enum source_detail detail, bool is_reduced,
                          void (*take)(void *context, const char *what), void *context)
{
    const struct source_level *now = levels;
    for (const struct source_level *l = levels; l && l->what && l->from <= detail; l++)
        now = l;
    if (now && is_reduced == (now != levels))
        take(context, now->what);
}

void pipeline_describe_detail(const struct pipeline *p, enum source_detail detail, bool is_reduced,
                              void (*take)(void *context, const char *what), void *context)
{
    for (size_t i = 0; i < p->opened_count; i++) {
        const struct opened_signal *o = &p->opened[i];
        each_level_of(o->source ? o->signal->source->levels : NULL, detail, is_reduced, take, context);
        each_level_of(o->self ? o->signal->levels : NULL, detail, is_reduced, take, context);
    }
}

int pipeline_set_cgroups(struct pipeline *p, const uint64_t *ids, size_t count)
{
    return p->tables ? shared_tables_set_cgroups(p->tables, ids, count) : 0;
}

void pipeline_ask_for_pods(struct pipeline *p)
{
    if (p->pod_watch)
        pod_watch_ask(p->pod_watch);
}

struct pods *pipeline_pods(const struct pipeline *p)
{
    return p->pod_watch ? pod_watch_pods(p->pod_watch) : NULL;
}

const struct cuda_activity *pipeline_cuda_activity(const struct pipeline *p)
{
    return &p->cuda_activity;
}

struct process_threads *pipeline_threads(struct pipeline *p)
{
    return p->threads;
}

static struct sampling_rule_table *find_sampling_rules(const struct pipeline *p)
{
    return p->tables ? shared_tables_sampling_rules(p->tables) : NULL;
}

int pipeline_set_sampling_rules(struct pipeline *p, const struct sampling_rules *rules)
{
    struct sampling_rule_table *table = find_sampling_rules(p);
    if (!table || !sampling_rules_can_replace(&p->loaded_rules, rules, p->sample_hz))
        return -EOPNOTSUPP;
    sampling_rule_table_replace(table, rules);
    for (size_t i = 0; i < p->opened_count; i++) {
        const struct opened_signal *o = &p->opened[i];
        if (o->source && o->signal->source->set_rules)
            o->signal->source->set_rules(o->source, rules);
    }
    return 0;
}

void pipeline_set_sampling_pods(struct pipeline *p, const struct sampling_pod *pods, size_t count)
{
    struct sampling_rule_table *rules = find_sampling_rules(p);
    if (rules)
        sampling_rule_table_set_pods(rules, pods, count);
}

static const struct opened_signal *find_signal(const struct pipeline *p, const struct sample_type *type)
{
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].source && p->opened[i].signal->sample_type == type)
            return &p->opened[i];
    return NULL;
}

bool pipeline_monitors(const struct pipeline *p, const struct sample_type *type)
{
    const struct opened_signal *o = find_signal(p, type);
    return o && (!o->signal->source->is_enabled || o->signal->source->is_enabled(o->source));
}

uint64_t pipeline_recorded(const struct pipeline *p, const struct sample_type *type)
{
    const struct opened_signal *o = find_signal(p, type);
    return o && o->signal->source->recorded ? o->signal->source->recorded(o->source) : 0;
}

void pipeline_flush(struct pipeline *p)
{
    for (size_t i = 0; i < p->opened_count; i++) {
        const struct opened_signal *o = &p->opened[i];
        int r = o->source && o->signal->source->flush ? o->signal->source->flush(o->source) : 0;
        if (r < 0)
            log_errno(r, "source %s: records in progress cannot be flushed; they are recorded when they end",
                      o->signal->source->name);
    }
}

void pipeline_trim(struct pipeline *p)
{
    unwind_cache_trim(p->unwind_cache);
    symbols_trim(p->symbols);
    jits_trim(p->jits);
    if (p->publisher)
        unwind_publisher_trim(p->publisher);
}

const struct sample_event *pipeline_replayed_event(const struct pipeline *p)
{
    return p->replayed_event;
}

int pipeline_record_events_error(const struct pipeline *p)
{
    return p->record_events_error;
}

const struct interpreters *pipeline_interpreters(const struct pipeline *p)
{
    return p->interpreters;
}

bool pipeline_missed_runtime(const struct pipeline *p)
{
    return p->no_runtimes && p->publisher && unwind_publisher_met_runtime(p->publisher);
}

const struct line_objects *pipeline_line_objects(const struct pipeline *p)
{
    return p->line_objects;
}

uint64_t pipeline_samples(const struct pipeline *p)
{
    return p->samples;
}

uint64_t pipeline_waits_given(const struct pipeline *p)
{
    return p->waits_given;
}

void pipeline_summarize(const struct pipeline *p, struct buf *text)
{
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].self && p->opened[i].signal->summarize)
            p->opened[i].signal->summarize(p->opened[i].self, text);
}

struct sampling_rule_stats pipeline_sampling_rule(const struct pipeline *p, uint32_t number)
{
    const struct sampling_rule_table *rules = find_sampling_rules(p);
    return rules ? sampling_rule_table_stats(rules, number) : (struct sampling_rule_stats){0};
}

uint64_t pipeline_kernel_bytes(const struct pipeline *p)
{
    uint64_t bytes = p->tables ? shared_tables_bytes(p->tables) : 0;
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].source && p->opened[i].signal->source->memory_bytes)
            bytes += p->opened[i].signal->source->memory_bytes(p->opened[i].source);
    return bytes;
}

uint64_t pipeline_run_time_ns(const struct pipeline *p)
{
    uint64_t ns = 0;
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].source && p->opened[i].signal->source->run_time_ns)
            ns += p->opened[i].signal->source->run_time_ns(p->opened[i].source);
    return ns;
}

uint64_t pipeline_helper_cpu_ns(struct pipeline *p)
{
    struct native_lines_stats lines = {0};
    if (p->native_lines)
        native_lines_stats(p->native_lines, &lines);
    uint64_t ns = processes_helper_cpu_ns(p->processes) + lines.cpu_ns;
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].source && p->opened[i].signal->source->helper_cpu_ns)
            ns += p->opened[i].signal->source->helper_cpu_ns(p->opened[i].source);
    return ns;
}

void pipeline_losses(const struct pipeline *p, struct losses *ret)
{
    *ret = p->losses;
    if (p->publisher)
        unwind_publisher_losses(p->publisher, ret);
    if (p->tables)
        shared_tables_losses(p->tables, ret);
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].source)
            p->opened[i].signal->source->losses(p->opened[i].source, ret);
}

void pipeline_metrics(const struct pipeline *p, const struct losses *losses, struct metric_set *set)
{
    for (int i = 0; i < LOSS_COUNT; i++)
        metric_add(set, "sonde_self_losses", METRIC_COUNTER, "",
                   "Events that were seen but not delivered completely, by reason.", (double)losses->count[i],
                   METRIC_LABELS({"reason", loss_name(i)}));
    metric_add(set, "sonde_self_samples", METRIC_COUNTER, "", "CPU samples delivered.",
               (double)(p->samples - p->waits_given), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_unfinished_turns", METRIC_COUNTER, "",
               "Turns of the pipeline that left records to the next turn, because their time was over.",
               (double)p->unfinished_turns, METRIC_NO_LABELS);
    if (p->tables)
        shared_tables_metrics(p->tables, set);
    for (size_t i = 0; i < p->opened_count; i++) {
        const struct opened_signal *o = &p->opened[i];
        if (o->source && o->signal->source->metrics)
            o->signal->source->metrics(o->source, set);
        if (o->self && o->signal->metrics)
            o->signal->metrics(o->self, set);
    }
    processes_metrics(p->processes, set);
    symbols_metrics(p->symbols, set);
    interpreters_metrics(p->interpreters, set);
    jits_metrics(p->jits, set);
    kernel_symbols_metrics(p->kernel, set);
    if (p->native_lines)
        native_lines_metrics(p->native_lines, set);
    unwind_cache_metrics(p->unwind_cache, set);
    if (p->publisher)
        unwind_publisher_metrics(p->publisher, set);
    if (p->contexts)
        thread_contexts_metrics(p->contexts, set);
    if (p->pod_watch)
        pod_watch_metrics(p->pod_watch, set);
}
