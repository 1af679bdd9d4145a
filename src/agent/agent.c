/* The node agent: see agent.h. Connects the pipeline's sink to the windows, enforces the budget once a second, and
 * answers the web page's queries. */
#include "agent/agent.h"

#include "agent/budget.h"
#include "agent/loop.h"
#include "agent/node_lock.h"
#include "agent/pipeline.h"
#include "agent/profile_export.h"
#include "agent/sampled_types.h"
#include "agent/sampling_pods.h"
#include "aggregate/requests.h"
#include "aggregate/wait_seconds.h"
#include "aggregate/windows.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/ready_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#define SLOT_NS              (5 * 1000000000ull)
#define SLOTS                24
#define WAIT_FLUSH_TICKS     5 /* seconds between flushes of waits in progress: the length of a slot */
#define SAMPLE_WAIT_NS       1000000ull
#define MEMORY_TICKS         5 /* seconds between memory measurements while memory is ample; one takes 1 ms */
#define MEMORY_WARNING_NS    (60 * 1000000000ull)
#define SAMPLING_RULES_PROBE "sampling rules"

/* Pipeline statistics as of the last second, copied so that readers never wait for a turn of the pipeline. */
struct agent_stats {
    struct metric_set *metrics;
    struct losses losses;
    uint64_t samples, waits, helper_cpu_ns;
    struct sampling_rule_stats rules[SAMPLING_RULES_MAX + 1]; /* the last: threads that match no rule */
};

struct agent {
    struct config config;
    struct sampling_rules rules;
    struct sampling_pods sampling_pods;
    struct pipeline *pipeline;
    struct loop *loop;
    int ready_fd; /* of agent_run */
    struct windows *windows;
    struct wait_seconds *wait_seconds;
    struct requests *requests;
    struct profile_export *profile_export; /* NULL: no receiver is configured */
    struct attach_report report;
    int lock_fd;
    uint64_t start_ns;
    uint64_t ticks, waits_ticks, memory_bytes;
    uint64_t memory_warning_ns;        /* when the last warning about memory was logged; 0: never */
    uint64_t cache_cuts, history_cuts; /* under `lock` */

    pthread_mutex_t lock; /* protects what the page's threads read: */
    struct budget budget;
    struct agent_stats stats;
};

/* ---- the sink ---- */

static int take_sample(void *context, const struct sample *sample)
{
    struct agent *a = context;
    if (a->profile_export)
        profile_export_add(a->profile_export, sample);
    if (sample->type == &sample_type_off_cpu) /* only waits have a reason */
        wait_seconds_add(a->wait_seconds, sample);
    return windows_add(a->windows, sample);
}

static int take_request(void *context, struct request *request)
{
    struct agent *a = context;
    return requests_add(a->requests, request);
}

/* ---- once a second ---- */

/* Trims caches first, which costs only recomputation. If that was not enough, also drops the older half of the export
 * queue and of the windows, on every call, until the windows are too small to be the cause. */
static void release_memory(struct agent *a, bool caches_are_cut)
{
    const uint64_t now_ns = clock_monotonic_ns();
    if (!a->memory_warning_ns || now_ns - a->memory_warning_ns >= MEMORY_WARNING_NS) {
        log_warning("budget.memory: %.1f MiB in use, %.1f MiB allowed; caches are cut, then the oldest samples",
                    (double)a->memory_bytes / (1 << 20), (double)a->config.budget_memory_bytes / (1 << 20));
        a->memory_warning_ns = now_ns;
    }
    const bool cut_history = caches_are_cut && windows_bytes(a->windows) > a->config.budget_memory_bytes / 16;
    if (caches_are_cut && a->profile_export)
        profile_export_trim(a->profile_export);
    if (cut_history)
        windows_trim(a->windows);
    pipeline_trim(a->pipeline);
    malloc_trim(0);
    pthread_mutex_lock(&a->lock);
    a->cache_cuts++;
    a->history_cuts += cut_history;
    pthread_mutex_unlock(&a->lock);
}

/* Measures every MEMORY_TICKS seconds, and every second once memory is close to the limit. */
static bool measure_memory(struct agent *a)
{
    const uint64_t allowed = a->config.budget_memory_bytes;
    if (a->ticks++ % MEMORY_TICKS != 0 && a->memory_bytes < allowed - allowed / 8)
        return false;
    a->memory_bytes = budget_own_resident_bytes() + pipeline_kernel_bytes(a->pipeline);
    return true;
}

static void publish_stats(struct agent *a, uint64_t helper_cpu_ns)
{
    struct agent_stats now = {.samples = pipeline_samples(a->pipeline) - pipeline_waits_given(a->pipeline),
                              .waits = pipeline_waits(a->pipeline).recorded,
                              .helper_cpu_ns = helper_cpu_ns};
    if (metric_set_new(&now.metrics) < 0)
        return;
    pipeline_losses(a->pipeline, &now.losses);
    pipeline_metrics(a->pipeline, &now.losses, now.metrics);
    for (size_t i = 0; i < a->rules.count; i++)
        now.rules[i] = pipeline_sampling_rule(a->pipeline, (uint32_t)i);
    now.rules[SAMPLING_RULES_MAX] = pipeline_sampling_rule(a->pipeline, SAMPLING_RULES_MAX);
    pthread_mutex_lock(&a->lock);
    struct agent_stats before = a->stats;
    a->stats = now;
    pthread_mutex_unlock(&a->lock);
    metric_set_free(before.metrics);
}

/* Lets queries distinguish "no samples" from "not monitored". */
static void update_monitored(struct agent *a, uint64_t now_ns)
{
    /* A lower rate increases the weight of samples, so monitoring continues while detail is shed. */
    windows_observe(a->windows, &sample_type_cpu, a->config.profile_enabled, now_ns);
    windows_observe(a->windows, &sample_type_off_cpu, pipeline_monitors_waits(a->pipeline), now_ns);
}

static void keep_budget(struct agent *a, uint64_t helper_cpu_ns)
{
    uint64_t cpu_ns = budget_own_cpu_ns() + helper_cpu_ns + pipeline_run_time_ns(a->pipeline);
    bool memory_is_new = measure_memory(a);
    uint64_t memory_bytes = a->memory_bytes;
    pthread_mutex_lock(&a->lock);
    bool was_over = a->budget.over_memory;
    enum source_detail was = a->budget.detail;
    bool changed = budget_measure(&a->budget, clock_monotonic_ns(), cpu_ns, memory_bytes);
    struct budget now = a->budget;
    pthread_mutex_unlock(&a->lock);
    if (changed) {
        pipeline_shed(a->pipeline, now.detail);
        update_monitored(a, clock_monotonic_ns());
        log_write(now.detail > was ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, "budget.cpu (%.2f%%): detail is now '%s'",
                  now.cpu_share_allowed * 100, budget_detail_name(now.detail));
    }
    if (now.over_memory && memory_is_new)
        release_memory(a, was_over);
}

static bool every_second(void *context)
{
    struct agent *a = context;
    const uint64_t helper_cpu_ns = pipeline_helper_cpu_ns(a->pipeline);
    keep_budget(a, helper_cpu_ns);
    if (a->config.off_cpu_enabled && ++a->waits_ticks % WAIT_FLUSH_TICKS == 0)
        pipeline_flush_waits(a->pipeline);
    sampling_pods_follow(&a->sampling_pods, &a->rules, a->pipeline);
    publish_stats(a, helper_cpu_ns);
    if (a->profile_export)
        profile_export_tick(a->profile_export);
    return true;
}

/* ---- life ---- */

static void log_report(const struct attach_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct attach_entry *e = &report->entries[i];
        if (!e->attached)
            log_warning("%s: not attached (%s)", e->probe, e->fallback_reason);
        else if (strcmp(e->probe, SAMPLING_RULES_PROBE) == 0 && e->limitation[0])
            log_warning("%s: %s", e->probe, e->limitation);
        else
            log_debug("%s: %s", e->probe, e->method);
    }
}

/* Reports rules that match nothing at present. That is no error, because the process may start later, but it is the
 * only hint at a misspelled name. */
static void report_sampling_rules(const struct sampling_rules *rules, const struct pipeline *pipeline,
                                  struct attach_report *report)
{
    struct attach_entry *entry = attach_report_add(report, SAMPLING_RULES_PROBE);
    char name[SAMPLING_RULE_NAME_BYTES];
    size_t found = 0, used = 0;
    for (uint32_t i = 0; i < rules->count; i++) {
        if (pipeline_sampling_rule(pipeline, i).found) {
            found++;
            continue;
        }
        used += (size_t)snprintf(entry->limitation + used, sizeof(entry->limitation) - used, "%s%s",
                                 used ? ", " : "not on this machine now: ", sampling_rule_name(&rules->list[i], name));
        if (used >= sizeof(entry->limitation))
            used = sizeof(entry->limitation) - 1; /* truncated */
    }
    snprintf(entry->method, sizeof(entry->method), "%zu of %zu found", found, rules->count);
    entry->attached = true;
}

static int attach(const struct config *config, void *context, struct attach_report *report, struct pipeline **ret)
{
    struct sampling_rules rules;
    char pod_labels[CONFIG_POD_LABELS_BYTES];
    config_sampling_rules(config, &rules);
    (void)config_pod_labels(config, pod_labels); /* validated when the configuration was loaded */
    struct pipeline_options options = {
        .sources = {.sample_hz = (uint32_t)config->profile_rate_hz,
                    .rules = rules.count ? &rules : NULL,
                    .ring_bytes = config->budget_memory_bytes / 16,
                    .table_bytes = config->budget_memory_bytes / 4,
                    .links = config->links_enabled,
                    .type = !config->off_cpu_enabled  ? &sample_type_cpu
                            : config->profile_enabled ? &sample_type_wall
                                                      : &sample_type_off_cpu,
                    .sample_wait_ns = SAMPLE_WAIT_NS},
        .memory_bytes = config->budget_memory_bytes,
        .cri_socket = config->kubernetes_cri_socket,
        .pod_labels = pod_labels,
    };
    struct pipeline_sink sink = {
        .context = context,
        .sample = config->profile_enabled || config->off_cpu_enabled ? take_sample : NULL,
        .request = config->requests_enabled ? take_request : NULL,
    };
    int r = pipeline_new(&options, &sink, report, ret);
    struct sampling_pods sampling_pods = {0};
    if (r == 0)
        sampling_pods_follow(&sampling_pods, &rules, *ret);
    sampling_pods_clear(&sampling_pods);
    if (r == 0 && pipeline_sampling_rule(*ret, SAMPLING_RULES_MAX).found)
        report_sampling_rules(&rules, *ret, report);
    return r;
}

int agent_try(const struct config *config, struct attach_report *report)
{
    struct pipeline *pipeline;
    int r = attach(config, NULL, report, &pipeline);
    if (r == 0)
        pipeline_free(pipeline);
    return r;
}

static int new_windows(struct agent *a)
{
    struct sampled_type types[SAMPLED_TYPES_MAX];
    const size_t count = sampled_types(&a->config, types);
    const uint64_t memory = a->config.budget_memory_bytes;
    const struct windows_options options = {.slot_ns = SLOT_NS,
                                            .slots = SLOTS,
                                            .types_max = (uint32_t)count,
                                            .max_bytes = memory / 4 - memory / 32,
                                            .detail_max_bytes = memory / 32};
    int r = windows_new(&options, &a->windows);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = windows_expect(a->windows, types[i].type, types[i].period);
    return r < 0 ? r : wait_seconds_new(&a->wait_seconds);
}

int agent_new(const struct config *config, struct agent **ret)
{
    _cleanup_(agent_freep) struct agent *a = calloc(1, sizeof(*a));
    if (!a)
        return -ENOMEM;
    a->config = *config;
    config_sampling_rules(config, &a->rules);
    a->lock_fd = -1;
    a->start_ns = clock_monotonic_ns();
    pthread_mutex_init(&a->lock, NULL);
    budget_init(&a->budget, config->budget_cpu_share, config->budget_memory_bytes, sysconf(_SC_NPROCESSORS_ONLN));
    int r = node_lock(&a->lock_fd);
    if (r < 0)
        return r;
    r = new_windows(a);
    if (r < 0)
        return r;
    r = requests_new(config->budget_memory_bytes / 16, &a->requests);
    if (r < 0)
        return r;
    r = attach(config, a, &a->report, &a->pipeline);
    log_report(&a->report);
    if (r < 0)
        return r;
    r = profile_export_new(config, NULL, &a->profile_export);
    if (r == 0 && a->profile_export)
        r = profile_export_start(a->profile_export); /* a thread: only after the helper process was forked */
    if (r < 0)
        return r;
    r = loop_new(a->pipeline, &a->loop);
    if (r < 0)
        return r;
    *ret = take_ptr(a);
    return 0;
}

void agent_free(struct agent *a)
{
    if (!a)
        return;
    loop_free(a->loop);
    profile_export_end(a->profile_export);
    pipeline_free(a->pipeline); /* detach before waiting for a receiver, so that no process is probed meanwhile */
    if (a->profile_export)
        log_debug("detached; waiting until the last profiles are sent");
    profile_export_free(a->profile_export);
    sampling_pods_clear(&a->sampling_pods);
    requests_free(a->requests);
    windows_free(a->windows);
    wait_seconds_free(a->wait_seconds);
    metric_set_free(a->stats.metrics);
    if (a->lock_fd >= 0)
        close(a->lock_fd);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

static bool notify_ready(void *context)
{
    struct agent *a = context;
    ready_fd_notify(&a->ready_fd);
    return true;
}

int agent_run(struct agent *a, int ready_fd)
{
    const uint64_t start_ns = clock_monotonic_ns(); /* the first samples precede the return of pipeline_start */
    int r = pipeline_start(a->pipeline);
    if (r < 0)
        return r;
    update_monitored(a, start_ns);
    publish_stats(a, pipeline_helper_cpu_ns(a->pipeline));
    a->ready_fd = ready_fd;
    struct loop_options options = {.context = a, .tick = every_second, .ready = notify_ready};
    struct loop_end end;
    r = loop_run(a->loop, &options, &end);
    if (r == 0)
        log_info("stopped");
    return r;
}

/* ---- queries of the page, from any thread ---- */

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

int agent_requests(void *agent, uint64_t seconds, size_t max, struct request ***ret, size_t *ret_count)
{
    struct agent *a = agent;
    uint64_t now_ns = clock_monotonic_ns(), span_ns = seconds * 1000000000ull;
    return requests_slowest(a->requests, now_ns > span_ns ? now_ns - span_ns : 0, max, ret, ret_count);
}

static struct budget copy_budget(struct agent *a)
{
    pthread_mutex_lock(&a->lock);
    struct budget copy = a->budget;
    pthread_mutex_unlock(&a->lock);
    return copy;
}

/* The number of rules, plus one for threads that match no rule. */
static size_t sampling_rule_count(const struct agent *a)
{
    return a->rules.count && (a->config.profile_enabled || a->config.off_cpu_enabled) ? a->rules.count + 1 : 0;
}

struct sampling_rule_line {
    char name[SAMPLING_RULE_NAME_BYTES];
    uint32_t hz;
    const struct sampling_rule_stats *stats;
};

static struct sampling_rule_line sampling_rule_line(const struct agent *a, const struct agent_stats *stats, size_t i)
{
    if (i == a->rules.count)
        return (struct sampling_rule_line){"others", (uint32_t)a->config.profile_rate_hz,
                                           &stats->rules[SAMPLING_RULES_MAX]};
    struct sampling_rule_line line = {.hz = a->rules.list[i].hz, .stats = &stats->rules[i]};
    sampling_rule_name(&a->rules.list[i], line.name);
    return line;
}

static void sampling_rule_metrics(const struct agent *a, const struct agent_stats *stats, struct metric_set *set)
{
    for (size_t i = 0; i < sampling_rule_count(a); i++) {
        const struct sampling_rule_line line = sampling_rule_line(a, stats, i);
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

int agent_metrics(void *agent, struct metric_set *set)
{
    struct agent *a = agent;
    struct budget b = copy_budget(a);
    struct utsname uts = {0};
    uname(&uts);
    pthread_mutex_lock(&a->lock);
    const uint64_t helper_cpu_ns = a->stats.helper_cpu_ns, cache_cuts = a->cache_cuts, history_cuts = a->history_cuts;
    if (a->stats.metrics)
        metric_add_set(set, a->stats.metrics);
    const struct agent_stats stats = a->stats;
    pthread_mutex_unlock(&a->lock);
    metric_add(set, "sonde_build", METRIC_INFO, "", "Version of the agent, kernel and machine.", 1,
               METRIC_LABELS({"version", SONDE_VERSION}, {"kernel", uts.release}, {"machine", uts.machine}));
    metric_add(set, "sonde_self_cpu_seconds", METRIC_COUNTER, "seconds",
               "CPU time of the agent's own threads, and of the process that opens files for it.",
               (budget_own_cpu_ns() + helper_cpu_ns) / 1e9, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_resident_bytes", METRIC_GAUGE, "bytes", "Resident memory of the agent.",
               budget_own_resident_bytes(), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_budget_cpu_ratio", METRIC_GAUGE, "ratio",
               "Share of the machine's CPU that the agent and its BPF programs took, over ten seconds.", b.cpu_share,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_self_budget_cpu_allowed_ratio", METRIC_GAUGE, "ratio",
               "Allowed share of the machine's CPU (budget.cpu).", b.cpu_share_allowed, METRIC_NO_LABELS);
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
    for (enum source_detail d = SOURCE_DETAIL_FULL; d <= SOURCE_DETAIL_LEAST; d++)
        metric_add(set, "sonde_self_budget_detail", METRIC_GAUGE, "",
                   "1 for the current level of detail; levels in the order of shedding.", b.detail == d,
                   METRIC_LABELS({"detail", budget_detail_name(d)}));
    for (size_t i = 0; i < a->report.count; i++)
        metric_add(set, "sonde_self_probe_attached", METRIC_GAUGE, "",
                   "1 if the probe is attached; the label names the attach method.", a->report.entries[i].attached,
                   METRIC_LABELS({"probe", a->report.entries[i].probe}, {"method", a->report.entries[i].method}));
    windows_metrics(a->windows, set);
    wait_seconds_metrics(a->wait_seconds, set);
    struct window *off_cpu = windows_find(a->windows, &sample_type_off_cpu);
    if (off_cpu)
        metric_add(set, "sonde_off_cpu_monitored_seconds", METRIC_COUNTER, "seconds",
                   "Time during which off-CPU time was monitored; does not advance while it is shed for the budget.",
                   (double)window_observed_ns(off_cpu, clock_monotonic_ns()) / 1e9, METRIC_NO_LABELS);
    sampling_rule_metrics(a, &stats, set);
    if (a->profile_export)
        profile_export_metrics(a->profile_export, set);
    requests_metrics(a->requests, set);
    return metric_set_error(set);
}

/* The current rate, which may be below the configured one. */
static double current_sample_hz(const struct agent *a, enum source_detail detail)
{
    return a->config.profile_enabled ? (double)a->config.profile_rate_hz / source_detail_samples_every(detail) : 0;
}

static void put_sampling_rules(const struct agent *a, const struct agent_stats *stats, enum source_detail detail,
                               struct buf *out)
{
    buf_puts(out, "\"sampling_rules\":[");
    for (size_t i = 0; i < sampling_rule_count(a); i++) {
        const struct sampling_rule_line line = sampling_rule_line(a, stats, i);
        buf_puts(out, i ? ",{\"rule\":" : "{\"rule\":");
        buf_put_json_string(out, line.name);
        buf_printf(out, ",\"sample_hz\":%g,\"found\":%s,\"samples\":%llu,\"ticks\":%llu}",
                   a->config.profile_enabled ? (double)line.hz / source_detail_samples_every(detail) : 0.0,
                   line.stats->found ? "true" : "false", (unsigned long long)line.stats->samples,
                   (unsigned long long)line.stats->ticks);
    }
    buf_puts(out, "],");
}

int agent_status(void *agent, char **ret_json)
{
    struct agent *a = agent;
    struct budget b = copy_budget(a);
    struct utsname uts = {0};
    _cleanup_buf_ struct buf out = {0};
    uname(&uts);
    pthread_mutex_lock(&a->lock);
    const struct agent_stats stats = a->stats;
    const uint64_t now_ns = clock_monotonic_ns();
    pthread_mutex_unlock(&a->lock);
    buf_puts(&out, "{\"version\":\"" SONDE_VERSION "\",\"host\":");
    buf_put_json_string(&out, uts.nodename);
    buf_puts(&out, ",\"kernel\":");
    buf_put_json_string(&out, uts.release);
    if (a->config.off_cpu_enabled)
        buf_printf(&out, ",\"waits\":%llu", (unsigned long long)stats.waits);
    buf_printf(&out, ",\"now_ms\":%llu,\"uptime_seconds\":%.1f,\"samples\":%llu,\"sample_hz\":%g,",
               (unsigned long long)(now_ns / 1000000), (now_ns - a->start_ns) / 1e9, (unsigned long long)stats.samples,
               current_sample_hz(a, b.detail));
    if (sampling_rule_count(a))
        put_sampling_rules(a, &stats, b.detail, &out);
    buf_puts(&out, "\"losses\":{");
    for (int i = 0; i < LOSS_COUNT; i++)
        buf_printf(&out, "%s\"%s\":%llu", i ? "," : "", loss_name(i), (unsigned long long)stats.losses.count[i]);
    buf_printf(
        &out,
        "},\"budget\":{\"detail\":\"%s\",\"cpu_share\":%.6f,\"cpu_share_allowed\":%.6f,\"memory_bytes\":%llu,\"memory_bytes_allowed\":%llu},\"probes\":",
        budget_detail_name(b.detail), b.cpu_share, b.cpu_share_allowed, (unsigned long long)b.memory_bytes,
        (unsigned long long)b.memory_bytes_allowed);
    attach_report_put_json(&a->report, &out);
    buf_putc(&out, '}');
    if (buf_error(&out) < 0)
        return buf_error(&out);
    *ret_json = take_ptr(out.data);
    return 0;
}
