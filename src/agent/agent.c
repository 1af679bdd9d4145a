/* The node agent: see agent.h. Connects the pipeline's sink to the windows, and enforces the budget once a second. */
#include "agent/agent_private.h"

#include "agent/node_lock.h"
#include "aggregate/cpu_users.h"
#include "aggregate/node_events.h"
#include "aggregate/opaque_ports.h"
#include "aggregate/requests.h"
#include "aggregate/service_calls.h"
#include "aggregate/wait_seconds.h"
#include "aggregate/windows.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file_pages.h"
#include "base/log.h"
#include "base/ready_fd.h"
#include "base/service.h"
#include "config/memory.h"
#include "config/sampled_types.h"
#include "pipeline/loop.h"
#include "pipeline/unwind_publisher.h"
#include "send/event_export.h"
#include "send/metrics_export.h"
#include "send/opamp_client.h"
#include "send/profile_export.h"
#include "send/span_export.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#define SLOT_NS              (5 * 1000000000ull)
#define SLOTS                24
#define DETAIL_SHARE         8  /* of the memory of the windows: one part in this many is for 20 ms positions */
#define FLUSH_TICKS          5  /* seconds between flushes of records in progress: the length of a slot */
#define MEMORY_TICKS         5  /* seconds between memory measurements while memory is ample; one takes 1 ms */
#define FILE_PAGES_TICKS     60 /* seconds between releases of pages that only start-up or an export needed */
#define FILE_PAGES_FIRST     3
#define MEMORY_WARNING_NS    (60 * 1000000000ull)
#define METRICS_REST         100 /* times as long as collecting metrics took, they are not collected again */
#define METRICS_REST_MAX_NS  (9 * 1000000000ull)
#define SAMPLING_RULES_PROBE "sampling rules"

/* ---- the sink ---- */

static int take_sample(void *context, const struct sample *sample)
{
    struct agent *a = context;
    if (a->profile_export)
        profile_export_add(a->profile_export, sample);
    if (sample->wait_reason)
        wait_seconds_add(a->wait_seconds, sample);
    if (sample->type == &sample_type_cpu)
        cpu_users_add(a->cpu_users, sample->resource->command, sample->value, sample->time_ns);
    return windows_add(a->windows, sample);
}

static int take_request(void *context, struct request *request)
{
    struct agent *a = context;
    if (a->span_export) {
        requests_set_usual(a->requests, request);
        span_export_add(a->span_export, request);
    }
    return requests_add(a->requests, request);
}

static int take_event(void *context, const struct node_event *event)
{
    struct agent *a = context;
    const uint64_t unix_ns = clock_unix_from_monotonic(event->time_ns);
    if (a->event_export)
        event_export_add(a->event_export, event, unix_ns);
    return node_events_add(a->events, event, unix_ns);
}

static void take_opaque(void *context, const struct opaque_traffic *traffic)
{
    struct agent *a = context;
    opaque_ports_add(a->opaque_ports, traffic);
}

static void take_calls(void *context, const struct service_call_traffic *traffic)
{
    struct agent *a = context;
    service_calls_add(a->calls, traffic);
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
    const bool cut_history = caches_are_cut && windows_bytes(a->windows) > a->memory.bytes[MEMORY_WINDOWS] / 4;
    if (caches_are_cut && a->profile_export)
        profile_export_trim(a->profile_export);
    if (caches_are_cut && a->span_export)
        span_export_trim(a->span_export);
    if (caches_are_cut && a->event_export)
        event_export_trim(a->event_export);
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
    if (a->ticks % FILE_PAGES_TICKS == FILE_PAGES_FIRST)
        (void)file_pages_release();
    if (a->ticks++ % MEMORY_TICKS != 0 && a->memory_bytes < allowed - allowed / 8)
        return false;
    const uint64_t own = budget_own_resident_bytes(), answers = (uint64_t)atomic_load(&a->answer_bytes);
    a->memory_bytes = (own > answers ? own - answers : 0) + pipeline_kernel_bytes(a->pipeline);
    return true;
}

/* I/O has tens of thousands of metrics where there are many jobs, so that they are not collected at any rate. */
static void collect_metrics(struct agent *a)
{
    const uint64_t now_ns = clock_monotonic_ns(), start_cpu_ns = clock_thread_cpu_ns();
    struct metric_set *set;
    struct losses losses;
    if (metric_set_new(&set) < 0)
        return;
    pipeline_losses(a->pipeline, &losses);
    pipeline_metrics(a->pipeline, &losses, set);
    const uint64_t rest_ns = METRICS_REST * (clock_thread_cpu_ns() - start_cpu_ns);
    pthread_mutex_lock(&a->lock);
    struct metric_set *before = a->stats.metrics;
    a->stats.metrics = set;
    a->stats.metrics_ns = now_ns;
    a->metrics_collections++;
    a->metrics_due_ns = clock_monotonic_ns() + (rest_ns < METRICS_REST_MAX_NS ? rest_ns : METRICS_REST_MAX_NS);
    pthread_cond_broadcast(&a->metrics_collected);
    pthread_mutex_unlock(&a->lock);
    metric_set_free(before);
}

/* Called when another thread wants metrics: collects them unless the last ones are recent. */
static void on_woken(void *context)
{
    struct agent *a = context;
    if (clock_monotonic_ns() >= a->metrics_due_ns) /* only this thread writes it */
        collect_metrics(a);
}

/* Ends the collection of metrics: from now on, requests for metrics get the last ones. */
static void stop_collecting(struct agent *a)
{
    pthread_mutex_lock(&a->lock);
    a->metrics_due_ns = UINT64_MAX;
    pthread_cond_broadcast(&a->metrics_collected);
    pthread_mutex_unlock(&a->lock);
}

static void publish_stats(struct agent *a, uint64_t helper_cpu_ns)
{
    struct agent_stats now = {.samples = pipeline_samples(a->pipeline) - pipeline_waits_given(a->pipeline),
                              .waits = pipeline_recorded(a->pipeline, &sample_type_off_cpu),
                              .helper_cpu_ns = helper_cpu_ns};
    pipeline_losses(a->pipeline, &now.losses);
    for (size_t i = 0; i < a->rules.count; i++)
        now.rules[i] = pipeline_sampling_rule(a->pipeline, (uint32_t)i);
    now.rules[SAMPLING_RULES_MAX] = pipeline_sampling_rule(a->pipeline, SAMPLING_RULES_MAX);
    pthread_mutex_lock(&a->lock);
    now.metrics = a->stats.metrics;
    now.metrics_ns = a->stats.metrics_ns;
    a->stats = now;
    pthread_mutex_unlock(&a->lock);
}

/* Lets queries distinguish "no samples" from "not monitored". */
static void update_monitored(struct agent *a, uint64_t now_ns)
{
    /* A lower rate increases the weight of samples, so monitoring continues while detail is shed. */
    struct sampled_type types[SAMPLED_TYPES_MAX];
    const size_t count = sampled_types(&a->config, types);
    for (size_t i = 0; i < count; i++)
        windows_observe(a->windows, types[i].type, pipeline_monitors(a->pipeline, types[i].type), now_ns);
    requests_observe(a->requests, true, now_ns); /* at all levels of detail */
}

static void append_to_list(void *context, const char *what)
{
    struct buf *list = context;
    buf_printf(list, "%s%s", list->size ? "; " : "", what);
}

static void log_detail(const struct agent *a, const struct budget *now, bool is_reduced)
{
    _cleanup_buf_ struct buf reduced = {0}, complete = {0};
    pipeline_describe_detail(a->pipeline, now->detail, true, append_to_list, &reduced);
    pipeline_describe_detail(a->pipeline, now->detail, false, append_to_list, &complete);
    if (buf_error(&reduced) < 0 || buf_error(&complete) < 0)
        return;
    if (is_reduced)
        log_warning(
            "budget.one_cpu: Sonde used more than %.2f%% of one CPU and reduces detail to '%s': %s. Complete: %s",
            now->one_cpu_share_allowed * 100, budget_detail_name(now->detail), reduced.size ? reduced.data : "nothing",
            complete.size ? complete.data : "nothing");
    else
        log_info("budget.one_cpu: detail is restored to '%s'%s%s. Complete: %s", budget_detail_name(now->detail),
                 reduced.size ? ": " : "", reduced.size ? reduced.data : "", complete.size ? complete.data : "nothing");
}

/* What the level of detail reduces, for agent_health. */
static void keep_reduced(struct agent *a, enum source_detail detail)
{
    _cleanup_buf_ struct buf reduced = {0};
    pipeline_describe_detail(a->pipeline, detail, true, append_to_list, &reduced);
    pthread_mutex_lock(&a->lock);
    snprintf(a->reduced, sizeof(a->reduced), "%s", reduced.size ? reduced.data : "");
    pthread_mutex_unlock(&a->lock);
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
        log_detail(a, &now, now.detail > was);
        keep_reduced(a, now.detail);
    }
    if (now.over_memory && memory_is_new)
        release_memory(a, was_over);
}

static bool every_second(void *context)
{
    struct agent *a = context;
    const uint64_t helper_cpu_ns = pipeline_helper_cpu_ns(a->pipeline);
    keep_budget(a, helper_cpu_ns);
    if (++a->flush_ticks % FLUSH_TICKS == 0)
        pipeline_flush(a->pipeline);
    sampling_pods_follow(&a->sampling_pods, &a->rules, a->pipeline);
    publish_stats(a, helper_cpu_ns);
    if (a->profile_export)
        profile_export_tick(a->profile_export);
    service_notify(SERVICE_ALIVE);
    a->hooks->tick(a->hooks->context);
    return true;
}

/* ---- life ---- */

static void log_sampling_rules(const struct attach_entry *e)
{
    if (e->limitation[0])
        log_warning("%s: %s", e->probe, e->limitation);
}

static void log_report(const struct attach_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct attach_entry *e = &report->entries[i];
        if (!e->attached)
            log_warning("%s: not attached (%s)", e->probe, e->fallback_reason);
        else if (strcmp(e->probe, SAMPLING_RULES_PROBE) == 0)
            log_sampling_rules(e);
        else
            log_debug("%s: %s", e->probe, e->method);
    }
}

/* Reports rules that match nothing at present. That is no error, because the process may start later, but it is the
 * only hint at a misspelled name. */
static void describe_sampling_rules(const struct sampling_rules *rules, const struct pipeline *pipeline,
                                    struct attach_entry *entry)
{
    char name[SAMPLING_RULE_NAME_BYTES];
    size_t found = 0, used = 0;
    entry->limitation[0] = '\0';
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

/* Random IDs: no two agents make the same ones. Before the kernel's source is ready, by the clock. */
static struct span_seed make_span_seed(void)
{
    struct span_seed seed;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
        seed = (struct span_seed){clock_unix_ns(), clock_monotonic_ns()};
    seed.high |= 1; /* not all zero */
    return seed;
}

static int attach(const struct config *config, const struct memory_plan *memory, void *context,
                  struct attach_report *report, struct pipeline **ret)
{
    struct sampling_rules rules;
    char pod_labels[CONFIG_POD_LABELS_BYTES];
    config_sampling_rules(config, &rules);
    (void)config_pod_labels(config, pod_labels); /* validated when the configuration was loaded */
    struct pipeline_options options = {
        .config = config,
        .sample_hz = (uint32_t)config->profile_rate_hz,
        .rules = rules.count ? &rules : NULL,
        .unwind_share = UNWIND_SHARE,
        .memory = memory,
        .cri_socket = config->kubernetes_cri_socket,
        .pod_labels = pod_labels,
    };
    if (config->otlp_traces_endpoint[0])
        options.span_seed = make_span_seed();
    struct pipeline_sink sink = {
        .context = context,
        .sample = take_sample,
        .request = take_request,
        .event = take_event,
        .opaque = take_opaque,
        .calls = take_calls,
    };
    int r = pipeline_new(&options, &sink, report, ret);
    struct sampling_pods sampling_pods = {0};
    if (r == 0)
        sampling_pods_follow(&sampling_pods, &rules, *ret);
    sampling_pods_clear(&sampling_pods);
    if (r == 0 && pipeline_sampling_rule(*ret, SAMPLING_RULES_MAX).found)
        describe_sampling_rules(&rules, *ret, attach_report_add(report, SAMPLING_RULES_PROBE));
    return r;
}

int agent_try(const struct config *config, struct attach_report *report)
{
    struct pipeline *pipeline;
    struct memory_plan memory;
    memory_plan_make(config, config->budget_memory_bytes, sysconf(_SC_NPROCESSORS_CONF), true, &memory);
    int r = attach(config, &memory, NULL, report, &pipeline);
    if (r == 0)
        pipeline_free(pipeline);
    return r;
}

static int new_windows(struct agent *a)
{
    struct sampled_type types[SAMPLED_TYPES_MAX];
    const size_t count = sampled_types(&a->config, types);
    const uint64_t memory = a->memory.bytes[MEMORY_WINDOWS];
    const struct windows_options options = {.slot_ns = SLOT_NS,
                                            .slots = SLOTS,
                                            .types_max = (uint32_t)count,
                                            .max_bytes = memory - memory / DETAIL_SHARE,
                                            .detail_max_bytes = memory / DETAIL_SHARE};
    int r = windows_new(&options, &a->windows);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = windows_expect(a->windows, types[i].type, types[i].period);
    return r < 0 ? r : wait_seconds_new(&a->wait_seconds);
}

static int start_metrics_export(struct agent *a)
{
    const struct metrics_source source = {agent_collect_metrics, a, a->start_ns};
    int r = metrics_export_new(&a->config, &source, NULL, &a->metrics_export);
    return r == 0 && a->metrics_export ? metrics_export_start(a->metrics_export) : r;
}

static int start_reports(struct agent *a)
{
    const struct opamp_source source = {agent_health, agent_check_capture, agent_capture, a};
    int r = opamp_client_new(&a->config, &source, NULL, &a->opamp);
    return r == 0 && a->opamp ? opamp_client_start(a->opamp) : r;
}

/* Threads: only after the helper process was forked. */
static int start_exports(struct agent *a)
{
    int r = profile_export_new(&a->config, &a->memory, NULL, &a->profile_export);
    if (r == 0 && a->profile_export)
        r = profile_export_start(a->profile_export);
    if (r == 0)
        r = span_export_new(&a->config, &a->memory, NULL, &a->span_export);
    if (r == 0 && a->span_export)
        r = span_export_start(a->span_export);
    if (r == 0)
        r = event_export_new(&a->config, &a->memory, NULL, &a->event_export);
    return r == 0 && a->event_export ? event_export_start(a->event_export) : r;
}

int agent_new(const struct config *config, const char *revision, struct agent **ret)
{
    _cleanup_(agent_freep) struct agent *a = calloc(1, sizeof(*a));
    if (!a)
        return -ENOMEM;
    a->config = *config;
    a->revision = revision;
    config_sampling_rules(config, &a->rules);
    a->lock_fd = -1;
    a->start_ns = clock_monotonic_ns();
    a->start_unix_ns = clock_unix_ns();
    a->last_turn_ns = a->start_ns;
    pthread_mutex_init(&a->lock, NULL);
    clock_cond_init(&a->metrics_collected);
    memory_plan_make(config, config->budget_memory_bytes, sysconf(_SC_NPROCESSORS_CONF), true, &a->memory);
    if (a->memory.missing_bytes)
        log_warning("budget.memory: %.0f MiB are allowed, the enabled signals need at least %.0f MiB",
                    (double)config->budget_memory_bytes / (1 << 20),
                    (double)(config->budget_memory_bytes + a->memory.missing_bytes) / (1 << 20));
    int r = node_lock(&a->lock_fd);
    if (r < 0)
        return r;
    r = new_windows(a);
    if (r < 0)
        return r;
    r = requests_new(a->memory.bytes[MEMORY_REQUESTS], &a->requests);
    if (r < 0)
        return r;
    r = node_events_new(&a->events) ?: opaque_ports_new(&a->opaque_ports) ?: service_calls_new(&a->calls);
    if (r == 0)
        r = cpu_users_new(&a->cpu_users);
    if (r < 0)
        return r;
    r = attach(config, &a->memory, a, &a->report, &a->pipeline);
    log_report(&a->report);
    if (r < 0)
        return r;
    budget_init(&a->budget, config->budget_one_cpu_share, config->budget_memory_bytes,
                pipeline_detail_levels(a->pipeline));
    r = start_exports(a);
    if (r < 0)
        return r;
    r = loop_new(a->pipeline, LOOP_OF_SERVICE, &a->loop) ?: start_metrics_export(a) ?: start_reports(a);
    if (r < 0)
        return r;
    *ret = take_ptr(a);
    return 0;
}

void agent_free(struct agent *a)
{
    if (!a)
        return;
    stop_collecting(a); /* by the loop */
    loop_free(a->loop);
    profile_export_end(a->profile_export);
    metrics_export_end(a->metrics_export);
    span_export_end(a->span_export);
    event_export_end(a->event_export);
    opamp_client_end(a->opamp);
    pipeline_free(a->pipeline); /* detach before waiting for a receiver, so that no process is probed meanwhile */
    if (a->profile_export || a->metrics_export || a->span_export || a->event_export)
        log_debug("detached; waiting until the last profiles, metrics, spans and events are sent");
    metrics_export_free(a->metrics_export); /* its thread collects from all of the following */
    profile_export_free(a->profile_export);
    span_export_free(a->span_export);
    event_export_free(a->event_export);
    opamp_client_free(a->opamp);
    sampling_pods_clear(&a->sampling_pods);
    requests_free(a->requests);
    node_events_free(a->events);
    opaque_ports_free(a->opaque_ports);
    service_calls_free(a->calls);
    cpu_users_free(a->cpu_users);
    windows_free(a->windows);
    wait_seconds_free(a->wait_seconds);
    metric_set_free(a->stats.metrics);
    if (a->lock_fd >= 0)
        close(a->lock_fd);
    pthread_cond_destroy(&a->metrics_collected);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

static bool notify_ready(void *context)
{
    struct agent *a = context;
    ready_fd_notify(&a->ready_fd);
    service_notify(SERVICE_READY);
    return true;
}

static void on_hangup(void *context)
{
    const struct agent *a = context;
    a->hooks->reload(a->hooks->context);
}

void agent_set_one_cpu_share(struct agent *a, double share)
{
    pthread_mutex_lock(&a->lock);
    a->config.budget_one_cpu_share = a->budget.one_cpu_share_allowed = share;
    pthread_mutex_unlock(&a->lock);
}

int agent_set_memory(struct agent *a, uint64_t bytes)
{
    struct memory_plan plan = a->memory;
    const uint64_t needed = memory_plan_resize(&plan, bytes);
    if (bytes < needed) {
        log_warning(
            "budget.memory: %.0f MiB are too little before a restart: until then tables keep their size, and at "
            "least %.0f MiB are needed",
            (double)bytes / (1 << 20), (double)needed / (1 << 20));
        return -ENOSPC;
    }
    const uint64_t memory = plan.bytes[MEMORY_WINDOWS];
    const size_t dropped = windows_limit(a->windows, memory - memory / DETAIL_SHARE, memory / DETAIL_SHARE);
    requests_limit(a->requests, plan.bytes[MEMORY_REQUESTS]);
    pipeline_set_memory(a->pipeline, &plan);
    malloc_trim(0);
    pthread_mutex_lock(&a->lock);
    a->memory = plan;
    a->config.budget_memory_bytes = a->budget.memory_bytes_allowed = bytes;
    a->history_cuts += dropped > 0;
    pthread_mutex_unlock(&a->lock);
    return 0;
}

int agent_set_sampling_rules(struct agent *a, const struct config *config)
{
    struct sampling_rules rules;
    char labels[CONFIG_POD_LABELS_BYTES], new_labels[CONFIG_POD_LABELS_BYTES];
    config_sampling_rules(config, &rules);
    (void)config_pod_labels(&a->config, labels);
    if (config_pod_labels(config, new_labels) < 0 || strcmp(labels, new_labels) != 0)
        return -EOPNOTSUPP; /* the container runtime is asked for the labels of the start */
    int r = pipeline_set_sampling_rules(a->pipeline, &rules);
    if (r < 0)
        return r;
    sampling_pods_clear(&a->sampling_pods); /* matched again with the next tick */
    struct attach_entry *entry = NULL;
    for (size_t i = 0; i < a->report.count; i++)
        if (strcmp(a->report.entries[i].probe, SAMPLING_RULES_PROBE) == 0)
            entry = &a->report.entries[i];
    pthread_mutex_lock(&a->lock);
    a->rules = rules; /* a->config keeps the rules of the start: they determined the rate of the sampling clock */
    memset(a->stats.rules, 0, sizeof(a->stats.rules));
    if (entry)
        describe_sampling_rules(&rules, a->pipeline, entry);
    pthread_mutex_unlock(&a->lock);
    publish_stats(a, pipeline_helper_cpu_ns(a->pipeline));
    if (entry)
        log_sampling_rules(entry);
    return 0;
}

int agent_run(struct agent *a, int ready_fd, const struct agent_hooks *hooks)
{
    const uint64_t start_ns = clock_monotonic_ns(); /* the first samples precede the return of pipeline_start */
    int r = pipeline_start(a->pipeline);
    if (r < 0)
        return r;
    update_monitored(a, start_ns);
    publish_stats(a, pipeline_helper_cpu_ns(a->pipeline));
    collect_metrics(a);
    a->ready_fd = ready_fd;
    a->hooks = hooks;
    struct loop_options options = {.context = a,
                                   .tick = every_second,
                                   .ready = notify_ready,
                                   .woken = on_woken,
                                   .hangup = on_hangup,
                                   .turned_ns = &a->last_turn_ns};
    struct loop_end end;
    r = loop_run(a->loop, &options, &end);
    service_notify(SERVICE_STOPPING);
    if (a->metrics_export) { /* its last values */
        publish_stats(a, pipeline_helper_cpu_ns(a->pipeline));
        collect_metrics(a);
    }
    stop_collecting(a);
    if (r == 0)
        log_info("stopped");
    return r;
}
