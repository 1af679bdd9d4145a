/* What the page and /metrics ask of the agent, from any thread: see agent.h. */
#include "agent/agent_private.h"

#include "aggregate/node_events.h"
#include "aggregate/opaque_ports.h"
#include "aggregate/requests.h"
#include "aggregate/service_calls.h"
#include "aggregate/wait_seconds.h"
#include "aggregate/windows.h"
#include "base/buf.h"
#include "base/clock.h"
#include "diagnose/request_sentence.h"
#include "export/node_event_json.h"
#include "pipeline/loop.h"
#include "send/event_export.h"
#include "send/metrics_export.h"
#include "send/opamp_client.h"
#include "send/profile_export.h"
#include "send/span_export.h"

#include <errno.h>
#include <stdio.h>
#include <sys/utsname.h>

#define PATHS_NS        (60 * 1000000000ull) /* requests without a path are counted for so long, */
#define PATHS_SHARE     10                   /* and are reported if they are more than this part */
#define METRICS_WAIT_NS 2000000000ull        /* how long a reader waits for the main thread */

int agent_profile(void *agent, uint64_t seconds, const struct profile_filter *filter, struct profile **ret)
{
    struct agent *a = agent;
    uint64_t now_ns = clock_monotonic_ns(), span_ns = seconds * 1000000000ull;
    return windows_snapshot(a->windows, now_ns > span_ns ? now_ns - span_ns : 0, now_ns, filter, ret);
}

int agent_region(void *agent, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                 struct profile **ret)
{
    struct agent *a = agent;
    return windows_region(a->windows, from_ns, to_ns, clock_monotonic_ns(), filter, ret);
}

int agent_heatmap(void *agent, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                  struct heatmap **ret)
{
    struct agent *a = agent;
    const uint64_t now_ns = clock_monotonic_ns();
    struct window *window = windows_find(a->windows, filter->type);
    if (from_ns > now_ns || !window)
        return window ? -ERANGE : -EOPNOTSUPP;
    int r = window_heatmap(window, from_ns, to_ns < now_ns ? to_ns : now_ns, filter, ret);
    if (r == 0)
        (*ret)->now_ns = now_ns;
    return r;
}

int agent_hotspots(void *agent, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                   const struct hotspots_options *hotspots, struct hotspots **ret)
{
    struct agent *a = agent;
    const uint64_t now_ns = clock_monotonic_ns();
    struct window *window = windows_find(a->windows, filter->type);
    if (from_ns > now_ns || !window)
        return window ? -ERANGE : -EOPNOTSUPP;
    int r = window_hotspots(window, from_ns, to_ns < now_ns ? to_ns : now_ns, filter, hotspots, ret);
    if (r == 0)
        (*ret)->now_ns = now_ns;
    return r;
}

int agent_requests(void *agent, uint64_t seconds, size_t max, enum request_choice which, struct request ***ret,
                   size_t *ret_count)
{
    struct agent *a = agent;
    const uint64_t now_ns = clock_monotonic_ns(), span_ns = seconds * 1000000000ull;
    int r = requests_choose(a->requests, now_ns > span_ns ? now_ns - span_ns : 0, now_ns, which, max, ret, ret_count);
    for (size_t i = 0; r == 0 && i < *ret_count; i++)
        (void)request_set_sentence(&(*ret)[i]); /* out of memory: the sentence without the baseline remains */
    return r;
}

/* Names the cause by its example, if that is kept. */
static void set_route_cause(struct agent *a, uint64_t since_ns, struct request_route *route)
{
    char sentence[REQUEST_SENTENCE_BYTES];
    _cleanup_(request_freep) struct request *example = NULL;
    if (route->cause_count && requests_example(a->requests, since_ns, route, 0, &example) == 0)
        snprintf(route->cause, sizeof(route->cause), "%.*s", (int)sizeof(route->cause) - 1,
                 request_cause_sentence(example, sentence));
}

int agent_routes(void *agent, uint64_t seconds, struct request_route **ret, size_t *ret_count)
{
    struct agent *a = agent;
    const uint64_t now_ns = clock_monotonic_ns(), span_ns = seconds * 1000000000ull,
                   since_ns = now_ns > span_ns ? now_ns - span_ns : 0;
    int r = requests_routes(a->requests, since_ns, now_ns, ret, ret_count);
    for (size_t i = 0; r == 0 && i < *ret_count; i++)
        set_route_cause(a, since_ns, &(*ret)[i]);
    return r;
}

int agent_calls(void *agent, uint64_t seconds, struct service_call **ret, size_t *ret_count)
{
    struct agent *a = agent;
    const uint64_t now_ns = clock_monotonic_ns(), span_ns = seconds * 1000000000ull;
    return service_calls_list(a->calls, now_ns > span_ns ? now_ns - span_ns : 0, now_ns, ret, ret_count);
}

static struct budget copy_budget(struct agent *a)
{
    pthread_mutex_lock(&a->lock);
    struct budget copy = a->budget;
    pthread_mutex_unlock(&a->lock);
    return copy;
}

/* The number of rules, plus one for threads that match no rule. */
static size_t sampling_rule_count(const struct agent *a, const struct sampling_rules *rules)
{
    return rules->count && config_samples(&a->config) ? rules->count + 1 : 0;
}

struct sampling_rule_line {
    char name[SAMPLING_RULE_NAME_BYTES];
    uint32_t hz;
    const struct sampling_rule_stats *stats;
};

static struct sampling_rule_line sampling_rule_line(const struct agent *a, const struct sampling_rules *rules,
                                                    const struct agent_stats *stats, size_t i)
{
    if (i == rules->count)
        return (struct sampling_rule_line){"others", (uint32_t)a->config.profile_rate_hz,
                                           &stats->rules[SAMPLING_RULES_MAX]};
    struct sampling_rule_line line = {.hz = rules->list[i].hz, .stats = &stats->rules[i]};
    sampling_rule_name(&rules->list[i], line.name);
    return line;
}

static void sampling_rule_metrics(const struct agent *a, const struct sampling_rules *rules,
                                  const struct agent_stats *stats, struct metric_set *set)
{
    for (size_t i = 0; i < sampling_rule_count(a, rules); i++) {
        const struct sampling_rule_line line = sampling_rule_line(a, rules, stats, i);
        metric_add(set, "sonde_self_sampling_rule_found", METRIC_GAUGE, "",
                   "1 if processes on this machine match the rule.", line.stats->found,
                   METRIC_LABELS({"rule", line.name}));
        metric_add(set, "sonde_self_sampling_rule_samples", METRIC_COUNTER, "",
                   "CPU samples of threads that match the rule.", (double)line.stats->samples,
                   METRIC_LABELS({"rule", line.name}));
        metric_add(set, "sonde_self_sampling_rule_ticks", METRIC_COUNTER, "",
                   "Ticks of the sampling clock that hit threads that match the rule.", (double)line.stats->ticks,
                   METRIC_LABELS({"rule", line.name}));
    }
}

struct events_writer {
    struct buf *out;
    bool has_some;
};

static void write_event(void *context, const struct node_event *event, uint64_t unix_ns)
{
    struct events_writer *w = context;
    buf_puts(w->out, w->has_some ? "," : "");
    node_event_json_write(event, unix_ns, w->out);
    w->has_some = true;
}

int agent_events(void *agent, uint64_t seconds, size_t max, struct buf *out)
{
    struct agent *a = agent;
    const uint64_t now_ns = clock_monotonic_ns(), span_ns = seconds * 1000000000ull;
    struct events_writer writer = {.out = out};
    node_events_each(a->events, now_ns > span_ns ? now_ns - span_ns : 0, max, write_event, &writer);
    return buf_error(out);
}

uint64_t agent_idle_ns(void *agent)
{
    const struct agent *a = agent;
    const uint64_t last_ns = atomic_load(&a->last_turn_ns), now_ns = clock_monotonic_ns();
    return now_ns > last_ns ? now_ns - last_ns : 0;
}

void agent_hold(void *agent, int64_t bytes)
{
    struct agent *a = agent;
    atomic_fetch_add(&a->answer_bytes, bytes);
}

void agent_connection_ended(void *agent, enum connection_end end)
{
    struct agent *a = agent;
    atomic_fetch_add(&a->connections_ended[end], 1);
}

int agent_metrics(void *agent, struct metric_set *set)
{
    return agent_collect_metrics(agent, set, &(uint64_t){0});
}

/* Has the main thread collect the pipeline's metrics, and waits for them; a main thread that is busy for longer is not
 * waited for, and the last ones remain. */
static void refresh_metrics(struct agent *a)
{
    const uint64_t asked_ns = clock_monotonic_ns();
    const struct timespec until = clock_timespec_of(asked_ns + METRICS_WAIT_NS);
    pthread_mutex_lock(&a->lock);
    if (asked_ns >= a->metrics_due_ns)
        loop_wake(a->loop);
    for (int r = 0; r == 0 && a->stats.metrics_ns < asked_ns && clock_monotonic_ns() >= a->metrics_due_ns;)
        r = pthread_cond_timedwait(&a->metrics_collected, &a->lock, &until);
    pthread_mutex_unlock(&a->lock);
}

int agent_collect_metrics(void *agent, struct metric_set *set, uint64_t *ret_read_ns)
{
    struct agent *a = agent;
    refresh_metrics(a);
    struct budget b = copy_budget(a);
    struct utsname uts = {0};
    uname(&uts);
    pthread_mutex_lock(&a->lock);
    const uint64_t cache_cuts = a->cache_cuts, history_cuts = a->history_cuts, collections = a->metrics_collections;
    const struct memory_plan memory = a->memory;
    const struct sampling_rules rules = a->rules;
    const struct agent_stats stats = a->stats;
    _cleanup_(metric_set_freep) struct metric_set *of_pipeline = stats.metrics ? metric_set_ref(stats.metrics) : NULL;
    pthread_mutex_unlock(&a->lock);
    *ret_read_ns = stats.metrics_ns;
    if (of_pipeline) /* unlocked: the pipeline's thread does not wait for the copy of many series */
        metric_add_set(set, of_pipeline);
    metric_add(set, "sonde_build", METRIC_INFO, "", "Version and revision of the agent, kernel and machine.", 1,
               METRIC_LABELS({"version", SONDE_VERSION}, {"revision", a->revision}, {"kernel", uts.release},
                             {"machine", uts.machine}));
    metric_add(set, "sonde_self_cpu_seconds", METRIC_COUNTER, "seconds",
               "CPU time of the agent's own threads, and of the process that opens files for it.",
               (budget_own_cpu_ns() + stats.helper_cpu_ns) / 1e9, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_last_turn_timestamp_seconds", METRIC_GAUGE, "seconds",
               "Unix time when the main thread last did its work; it does so four times a second.",
               (clock_unix_ns() - agent_idle_ns(a)) / 1e9, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_resident_bytes", METRIC_GAUGE, "bytes", "Resident memory of the agent.",
               budget_own_resident_bytes(), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_metrics_collections", METRIC_COUNTER, "",
               "Times that the metrics of the signals were collected, which is done on request.", (double)collections,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_self_answer_bytes", METRIC_GAUGE, "bytes",
               "Answers of the page and of /metrics that are being sent, which budget.memory does not contain.",
               (double)atomic_load(&a->answer_bytes), METRIC_NO_LABELS);
    for (int i = 0; i < CONNECTION_END_COUNT; i++)
        metric_add(set, "sonde_self_connections_closed", METRIC_COUNTER, "",
                   "Connections to the page and to /metrics that were closed to keep within limits.",
                   (double)atomic_load(&a->connections_ended[i]), METRIC_LABELS({"reason", connection_end_name(i)}));
    metric_add(set, "sonde_self_budget_one_cpu_ratio", METRIC_GAUGE, "ratio",
               "Share of one CPU that the agent and its BPF programs took, over ten seconds.", b.one_cpu_share,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_self_budget_one_cpu_allowed_ratio", METRIC_GAUGE, "ratio",
               "Allowed share of one CPU (budget.one_cpu).", b.one_cpu_share_allowed, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_budget_memory_bytes", METRIC_GAUGE, "bytes", "Resident memory and BPF maps together.",
               b.memory_bytes, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_budget_memory_allowed_bytes", METRIC_GAUGE, "bytes", "Allowed memory (budget.memory).",
               b.memory_bytes_allowed, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_budget_memory_cuts", METRIC_COUNTER, "",
               "Times that memory was released to stay within budget.memory.", (double)cache_cuts,
               METRIC_LABELS({"what", "caches"}));
    metric_add(set, "sonde_self_budget_memory_cuts", METRIC_COUNTER, "",
               "Times that memory was released to stay within budget.memory.", (double)history_cuts,
               METRIC_LABELS({"what", "oldest_samples"}));
    for (int part = MEMORY_NONE + 1; part < MEMORY_PART_COUNT; part++)
        metric_add(set, "sonde_self_budget_memory_part_bytes", METRIC_GAUGE, "bytes",
                   "Limit of a part of the memory; 0: its signal is not enabled.", (double)memory.bytes[part],
                   METRIC_LABELS({"part", memory_part_name(part)}));
    for (enum source_detail d = SOURCE_DETAIL_FULL; d <= SOURCE_DETAIL_LEAST; d++)
        metric_add(set, "sonde_self_budget_detail", METRIC_GAUGE, "",
                   "1 for the current level of detail; levels in the order of shedding.", b.detail == d,
                   METRIC_LABELS({"detail", budget_detail_name(d)}));
    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < a->report.count; i++)
        if (!a->report.entries[i].has_no_object)
            metric_add(set, "sonde_self_probe_attached", METRIC_GAUGE, "",
                       "1 if the probe is attached; the label names the attach method.", a->report.entries[i].attached,
                       METRIC_LABELS({"probe", a->report.entries[i].probe}, {"method", a->report.entries[i].method}));
    pthread_mutex_unlock(&a->lock);
    windows_metrics(a->windows, set);
    wait_seconds_metrics(a->wait_seconds, set);
    struct window *off_cpu = windows_find(a->windows, &sample_type_off_cpu);
    if (off_cpu)
        metric_add(set, "sonde_off_cpu_monitored_seconds", METRIC_COUNTER, "seconds",
                   "Time during which off-CPU time was monitored; does not advance while it is shed for the budget.",
                   (double)window_observed_ns(off_cpu, clock_monotonic_ns()) / 1e9, METRIC_NO_LABELS);
    sampling_rule_metrics(a, &rules, &stats, set);
    if (a->profile_export)
        profile_export_metrics(a->profile_export, set);
    if (a->metrics_export)
        metrics_export_metrics(a->metrics_export, set);
    if (a->span_export)
        span_export_metrics(a->span_export, set);
    if (a->event_export)
        event_export_metrics(a->event_export, set);
    if (a->opamp)
        opamp_client_metrics(a->opamp, set);
    requests_metrics(a->requests, set);
    opaque_ports_metrics(a->opaque_ports, set);
    service_calls_metrics(a->calls, set);
    return metric_set_error(set);
}

/* The current rate, which may be below the configured one. */
static double current_sample_hz(const struct agent *a, enum source_detail detail)
{
    return config_bool(&a->config, "profile.enabled")
               ? (double)a->config.profile_rate_hz / source_detail_samples_every(detail)
               : 0;
}

static void put_sampling_rules(const struct agent *a, const struct sampling_rules *rules,
                               const struct agent_stats *stats, enum source_detail detail, struct buf *out)
{
    buf_puts(out, "\"sampling_rules\":[");
    for (size_t i = 0; i < sampling_rule_count(a, rules); i++) {
        const struct sampling_rule_line line = sampling_rule_line(a, rules, stats, i);
        buf_puts(out, i ? ",{\"rule\":" : "{\"rule\":");
        buf_put_json_string(out, line.name);
        buf_printf(out, ",\"sample_hz\":%g,\"found\":%s,\"samples\":%llu,\"ticks\":%llu}",
                   config_bool(&a->config, "profile.enabled") ? (double)line.hz / source_detail_samples_every(detail)
                                                              : 0.0,
                   line.stats->found ? "true" : "false", (unsigned long long)line.stats->samples,
                   (unsigned long long)line.stats->ticks);
    }
    buf_puts(out, "],");
}

static void append_text(void *context, const char *what)
{
    struct buf *out = context;
    if (buf_error(out) < 0)
        return;
    if (out->data[out->size - 1] != '[')
        buf_putc(out, ',');
    buf_put_json_string(out, what);
}

/* Requests without a path, where they are more than a few. */
static void put_paths(const struct request_totals *totals, struct buf *out)
{
    char text[128];
    if (totals->over_budget * PATHS_SHARE <= totals->abnormal)
        return;
    snprintf(text, sizeof(text), "no causes of %.0f %% of the slow or failed requests of the last minute",
             100.0 * totals->over_budget / totals->abnormal);
    append_text(out, text);
}

static void put_budget(const struct agent *a, const struct budget *b, struct buf *out)
{
    char outlook[BUDGET_OUTLOOK_BYTES];
    struct request_totals totals;
    const uint64_t now_ns = clock_monotonic_ns();
    requests_totals(a->requests, now_ns > PATHS_NS ? now_ns - PATHS_NS : 0, &totals);
    buf_printf(out,
               "\"budget\":{\"detail\":\"%s\",\"one_cpu_share\":%.6f,\"one_cpu_share_allowed\":%.6f,"
               "\"memory_bytes\":%llu,\"memory_bytes_allowed\":%llu,\"reduced\":[",
               budget_detail_name(b->detail), b->one_cpu_share, b->one_cpu_share_allowed,
               (unsigned long long)b->memory_bytes, (unsigned long long)b->memory_bytes_allowed);
    pipeline_describe_detail(a->pipeline, b->detail, true, append_text, out);
    put_paths(&totals, out);
    buf_puts(out, "],\"complete\":[");
    pipeline_describe_detail(a->pipeline, b->detail, false, append_text, out);
    buf_puts(out, "],\"outlook\":");
    buf_put_json_string(out, budget_outlook(b, now_ns, outlook));
    buf_putc(out, '}');
}

int agent_status(void *agent, char **ret_json)
{
    struct agent *a = agent;
    struct budget b = copy_budget(a);
    struct utsname uts = {0};
    _cleanup_buf_ struct buf out = {0};
    uname(&uts);
    pthread_mutex_lock(&a->lock);
    const struct sampling_rules rules = a->rules;
    const struct agent_stats stats = a->stats;
    const uint64_t now_ns = clock_monotonic_ns();
    pthread_mutex_unlock(&a->lock);
    buf_puts(&out, "{\"version\":\"" SONDE_VERSION "\",\"host\":");
    buf_put_json_string(&out, uts.nodename);
    buf_puts(&out, ",\"kernel\":");
    buf_put_json_string(&out, uts.release);
    if (windows_find(a->windows, &sample_type_off_cpu))
        buf_printf(&out, ",\"waits\":%llu", (unsigned long long)stats.waits);
    buf_printf(&out, ",\"now_ms\":%llu,\"uptime_seconds\":%.1f,\"samples\":%llu,\"sample_hz\":%g,",
               (unsigned long long)(now_ns / 1000000), (now_ns - a->start_ns) / 1e9, (unsigned long long)stats.samples,
               current_sample_hz(a, b.detail));
    buf_printf(&out, "\"stacks\":%llu,\"incomplete_stacks\":%llu,", (unsigned long long)stats.losses.stacks,
               (unsigned long long)stats.losses.incomplete_stacks);
    if (sampling_rule_count(a, &rules))
        put_sampling_rules(a, &rules, &stats, b.detail, &out);
    buf_puts(&out, "\"losses\":{");
    for (int i = 0; i < LOSS_COUNT; i++)
        buf_printf(&out, "%s\"%s\":%llu", i ? "," : "", loss_name(i), (unsigned long long)stats.losses.count[i]);
    buf_puts(&out, "},");
    put_budget(a, &b, &out);
    buf_puts(&out, ",\"probes\":");
    pthread_mutex_lock(&a->lock);
    attach_report_put_json(&a->report, &out);
    pthread_mutex_unlock(&a->lock);
    buf_putc(&out, '}');
    if (buf_error(&out) < 0)
        return buf_error(&out);
    *ret_json = take_ptr(out.data);
    return 0;
}
