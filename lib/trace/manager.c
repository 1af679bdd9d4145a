/* Managers and models: their lifetime, their settings, and fork handling. */
#include "manager.h"
#include "../export.h"

#include "attributes.h"
#include "fork.h"
#include "otlp_library.h"
#include "otlp_sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX       1024
#define ENTRIES_MAX          65536
#define BYTES_MAX            ((uint64_t)1 << 30)
#define FILE_NAP_MS          20

#define QUEUE_TRACES_DEFAULT 8192

static uint64_t or_default(uint64_t value, uint64_t otherwise)
{
    value = value ? value : otherwise;
    return value < BYTES_MAX ? value : BYTES_MAX;
}

static bool has_file(const struct sonde_trace_manager *m)
{
    return m->config->mode == TRACE_MODE_OPENTELEMETRY || *m->config->file;
}

/* Why tracing with these values is impossible; NULL if it is possible. The texts are Triton's. */
static const char *why_invalid(const struct sonde_trace_manager *m, const struct trace_values *v)
{
    if (!v->level || m->config->mode == TRACE_MODE_OPENTELEMETRY)
        return NULL;
    if (v->rate == 0)
        return "sample rate must be non-zero";
    return has_file(m) ? NULL : "trace file name is not given";
}

/* As with Triton, a server starts although its settings trace nothing; the error callback reports it. */
static void report_invalid(const struct sonde_trace_manager *m, const struct sonde_trace_options *o)
{
    char message[128];
    const char *why = why_invalid(m, &m->config->values);
    if (!why || !o->on_error)
        return;
    snprintf(message, sizeof(message), "%s: nothing is traced", why);
    o->on_error(o->argument, EINVAL, message);
}

static int start_file_writer(struct sonde_trace_manager *m, const struct sonde_trace_options *user)
{
    uint32_t max = user->queue_traces_max ? user->queue_traces_max : QUEUE_TRACES_DEFAULT;
    const struct trace_writer_options o = {.kind = "trace file",
                                           .where = m->config->file,
                                           .overflow = "the queue is full, traces are dropped",
                                           .queue_max = max,
                                           .enough = max / 2 + 1,
                                           .nap_ms = FILE_NAP_MS};
    struct trace_sink *sink = trace_file_sink_new(m->config->file);
    return sink ? trace_writer_init(&m->writer, sink, &o, user) : -ENOMEM;
}

static int start_otlp_writer(struct sonde_trace_manager *m, const struct sonde_trace_options *user,
                             const struct otlp_transport *transport, char *why, size_t why_size)
{
    const struct sonde_trace_config *c = m->config;
    otlp_url_shown(trace_otlp_url(c), m->where);
    uint32_t half = (c->bsp_max_queue_size + 1) / 2;
    const struct trace_writer_options o = {.kind = "OpenTelemetry receiver",
                                           .where = m->where,
                                           .overflow = "BatchSpanProcessor queue is full - dropping span",
                                           .queue_max = c->bsp_max_queue_size,
                                           .enough = c->bsp_max_export_batch_size < half ? c->bsp_max_export_batch_size
                                                                                         : half,
                                           .nap_ms = c->bsp_schedule_delay_ms};
    struct trace_sink *sink;
    int r = trace_otlp_sink_new(c, transport, &m->writer, &sink, why, why_size);
    return r == 0 ? trace_writer_init(&m->writer, sink, &o, user) : r;
}

static int start_metrics(struct sonde_trace_manager *m, const struct sonde_trace_options *user,
                         const struct otlp_transport *transport, char *why, size_t why_size)
{
    m->provider = strdup(user->provider ? user->provider : trace_service_name(m->config));
    int r = m->provider ? trace_metrics_init(&m->metrics) : -ENOMEM;
    return r == 0 ? trace_metrics_exporter_init(&m->exporter, m->config, user, &m->metrics, transport, &m->ids,
                                                m->provider, why, why_size)
                  : r;
}

int trace_manager_new(const struct sonde_trace_config *config, const struct sonde_trace_options *options,
                      const struct otlp_transport *transport, struct sonde_trace_manager **ret_manager, char *why,
                      size_t why_size)
{
    struct sonde_trace_options o = {0};
    if (options)
        memcpy(&o, options, options->size < sizeof(o) ? options->size : sizeof(o));
    struct sonde_trace_config *defaults = NULL;
    int r = config ? 0 : sonde_trace_config_new(&defaults);
    if (r < 0)
        return r;
    struct sonde_trace_manager *m = NULL;
    r = trace_config_check(config ? config : defaults, why, why_size);
    if (r < 0)
        goto out;
    r = -ENOMEM;
    m = calloc(1, sizeof(*m));
    if (!m || trace_config_copy(config ? config : defaults, &m->config) < 0)
        goto out;
    atomic_init(&m->refs, 1);
    trace_ids_seed(&m->ids);
    m->tensor_bytes_max = or_default(o.tensor_bytes_max, (uint64_t)1 << 20);
    m->request_bytes_max = or_default(o.request_bytes_max, (uint64_t)16 << 20);
    if (trace_sampler_init(&m->global, &m->config->values, has_file(m)) < 0)
        goto out;
    pthread_mutex_init(&m->lock, NULL);
    r = start_metrics(m, &o, m->config->mode == TRACE_MODE_OPENTELEMETRY ? transport : NULL, why, why_size);
    if (r < 0)
        goto out;
    r = m->config->mode == TRACE_MODE_OPENTELEMETRY ? start_otlp_writer(m, &o, transport, why, why_size)
                                                    : start_file_writer(m, &o);
    if (r == 0) {
        r = trace_fork_add(m);
        if (r < 0)
            trace_writer_fini(&m->writer);
    }
    if (r < 0) {
        trace_metrics_exporter_fini(&m->exporter);
        goto out;
    }
    report_invalid(m, &o);
    *ret_manager = m;
    m = NULL;
out:
    if (m) {
        trace_metrics_fini(&m->metrics);
        free(m->provider);
        trace_sampler_fini(&m->global);
        sonde_trace_config_free(m->config);
        free(m);
    }
    sonde_trace_config_free(defaults);
    return r;
}

SONDE_EXPORT int sonde_trace_manager_new(const struct sonde_trace_config *config,
                                         const struct sonde_trace_options *options,
                                         struct sonde_trace_manager **ret_manager, char *why, size_t why_size)
{
    const struct otlp_transport *transport = NULL;
    int r = config ? trace_config_check(config, why, why_size) : 0;
    if (r == 0 && config && config->mode == TRACE_MODE_OPENTELEMETRY)
        r = trace_otlp_library_load(&transport, why, why_size);
    return r < 0 ? r : trace_manager_new(config, options, transport, ret_manager, why, why_size);
}

void trace_manager_unref(struct sonde_trace_manager *m)
{
    if (atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1)
        return;
    trace_fork_remove(m);
    for (size_t i = 0; i < TRACE_BUCKETS; i++)
        for (struct trace_entry *e = m->entries[i], *next; e; e = next) {
            next = e->next;
            trace_sampler_fini(&e->own);
            free(e);
        }
    trace_sampler_fini(&m->global);
    trace_writer_fini(&m->writer);
    trace_metrics_exporter_fini(&m->exporter);
    trace_metrics_fini(&m->metrics);
    free(m->provider);
    pthread_mutex_destroy(&m->lock);
    sonde_trace_config_free(m->config);
    free(m);
}

SONDE_EXPORT void sonde_trace_manager_free(struct sonde_trace_manager *m)
{
    if (!m)
        return;
    trace_metrics_exporter_stop(&m->exporter); /* it sends its last packet while the writer finishes */
    trace_writer_close(&m->writer);
    trace_metrics_exporter_join(&m->exporter);
    trace_manager_unref(m);
}

SONDE_EXPORT int sonde_trace_manager_flush(struct sonde_trace_manager *m, unsigned timeout_ms)
{
    uint64_t began_ns = sonde_trace_now_ns();
    int r = trace_writer_flush(&m->writer, timeout_ms);
    uint64_t took_ms = (sonde_trace_now_ns() - began_ns) / 1000000;
    return r == 0
               ? trace_metrics_exporter_flush(&m->exporter, took_ms < timeout_ms ? timeout_ms - (unsigned)took_ms : 0)
               : r;
}

SONDE_EXPORT void sonde_trace_manager_stats(struct sonde_trace_manager *m, struct sonde_trace_stats *ret_stats,
                                            size_t size)
{
    struct trace_writer *w = &m->writer;
    struct sonde_trace_stats stats = {
        .sampled = atomic_load_explicit(&m->sampled, memory_order_relaxed),
        .written = atomic_load_explicit(&w->written, memory_order_relaxed),
        .dropped_queue = atomic_load_explicit(&w->dropped_queue, memory_order_relaxed),
        .dropped_write = atomic_load_explicit(&w->dropped_write, memory_order_relaxed),
        .write_errors = atomic_load_explicit(&w->write_errors, memory_order_relaxed),
        .records_dropped = atomic_load_explicit(&m->records_dropped, memory_order_relaxed),
        .tensors_malformed = atomic_load_explicit(&w->tensors_malformed, memory_order_relaxed),
        .tensors_too_large = atomic_load_explicit(&w->tensors_too_large, memory_order_relaxed),
        .spans_rejected = atomic_load_explicit(&w->spans_rejected, memory_order_relaxed),
        .generations = atomic_load_explicit(&m->metrics.generations, memory_order_relaxed),
        .generations_overflowed = atomic_load_explicit(&m->metrics.overflowed, memory_order_relaxed),
        .metrics_sent = atomic_load_explicit(&m->exporter.sent, memory_order_relaxed),
        .metrics_lost = atomic_load_explicit(&m->exporter.lost, memory_order_relaxed),
        .metric_errors = atomic_load_explicit(&m->exporter.errors, memory_order_relaxed),
        .points_rejected = atomic_load_explicit(&m->exporter.rejected, memory_order_relaxed),
    };
    memset(ret_stats, 0, size);
    memcpy(ret_stats, &stats, size < sizeof(stats) ? size : sizeof(stats));
}

void trace_manager_before_fork(struct sonde_trace_manager *m)
{
    pthread_mutex_lock(&m->lock);
    pthread_mutex_lock(&m->writer.lock);
    pthread_mutex_lock(&m->exporter.lock);
    pthread_mutex_lock(&m->metrics.lock);
    pthread_mutex_lock(&m->metrics.create_lock);
}

void trace_manager_after_fork(struct sonde_trace_manager *m, bool child)
{
    if (child) {
        trace_ids_seed(&m->ids);
        trace_writer_reset_in_child(&m->writer);
        trace_metrics_exporter_reset_in_child(&m->exporter);
        trace_metrics_reset_in_child(&m->metrics);
        atomic_store_explicit(&m->sampled, 0, memory_order_relaxed);
        atomic_store_explicit(&m->records_dropped, 0, memory_order_relaxed);
    }
    pthread_mutex_unlock(&m->metrics.create_lock);
    pthread_mutex_unlock(&m->metrics.lock);
    pthread_mutex_unlock(&m->exporter.lock);
    pthread_mutex_unlock(&m->writer.lock);
    pthread_mutex_unlock(&m->lock);
}

/* --- models ---------------------------------------------------------------------------------- */

static struct trace_entry **find_entry(struct sonde_trace_manager *m, const char *name)
{
    uint32_t hash = 2166136261;
    for (const char *p = name; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619;
    struct trace_entry **e = &m->entries[hash % TRACE_BUCKETS];
    while (*e && strcmp((*e)->name, name) != 0)
        e = &(*e)->next;
    return e;
}

/* Under the lock. */
static int get_entry(struct sonde_trace_manager *m, const char *name, size_t size, struct trace_entry **ret)
{
    struct trace_entry **place = find_entry(m, name);
    if (!*place) {
        if (m->entry_count == ENTRIES_MAX)
            return -ENOSPC;
        struct trace_entry *e = calloc(1, sizeof(*e) + size + 1);
        if (!e)
            return -ENOMEM;
        memcpy(e->name, name, size + 1);
        atomic_init(&e->sampler, &m->global);
        *place = e;
        m->entry_count++;
    }
    (*place)->handles++;
    *ret = *place;
    return 0;
}

SONDE_EXPORT int sonde_trace_model_new(struct sonde_trace_manager *m, const char *name, int64_t version,
                                       struct sonde_trace_model **ret_model)
{
    size_t size = strlen(name);
    if (size == 0 || size > NAME_BYTES_MAX)
        return -EINVAL;
    struct sonde_trace_model *model = malloc(sizeof(*model));
    if (!model)
        return -ENOMEM;
    *model = (struct sonde_trace_model){.manager = m, .version = version};
    pthread_mutex_lock(&m->lock);
    int r = get_entry(m, name, size, &model->entry);
    pthread_mutex_unlock(&m->lock);
    if (r < 0) {
        free(model);
        return r;
    }
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    *ret_model = model;
    return 0;
}

SONDE_EXPORT void sonde_trace_model_free(struct sonde_trace_model *model)
{
    if (!model)
        return;
    pthread_mutex_lock(&model->manager->lock);
    model->entry->handles--;
    pthread_mutex_unlock(&model->manager->lock);
    trace_manager_unref(model->manager);
    free(model);
}

/* --- settings -------------------------------------------------------------------------------- */

/* Applies an update to a model's settings; an empty update adapts them to a changed global layer. */
static int update_entry(struct sonde_trace_manager *m, struct trace_entry *e, const struct trace_update *update,
                        const char **ret_why)
{
    struct trace_sampler layer = {.values = e->own.values, .specified = e->own.settings ? e->own.specified : 0};
    unsigned specified;
    struct trace_values values = trace_layered(&layer, &m->global.values, update, &specified);
    if (specified == 0) { /* the own settings are removed; the global counter continues */
        atomic_store_explicit(&e->sampler, &m->global, memory_order_release);
        trace_sampler_fini(&e->own);
        return 0;
    }
    const char *why = why_invalid(m, &values);
    if (why && ret_why) {
        *ret_why = why;
        return -EINVAL;
    }
    int r = trace_sampler_set(&e->own, &values, specified, has_file(m));
    if (r == 0)
        atomic_store_explicit(&e->sampler, &e->own, memory_order_release);
    return r;
}

static int update_global(struct sonde_trace_manager *m, const struct trace_update *update, const char **ret_why)
{
    unsigned specified;
    struct trace_values values = trace_layered(&m->global, &m->config->values, update, &specified);
    const char *why = why_invalid(m, &values);
    if (why) {
        *ret_why = why;
        return -EINVAL;
    }
    static const struct trace_update nothing = {0};
    int r = trace_sampler_set(&m->global, &values, specified, has_file(m));
    for (size_t i = 0; i < TRACE_BUCKETS && r == 0; i++)
        for (struct trace_entry *e = m->entries[i]; e && r == 0; e = e->next)
            if (e->own.settings)
                r = update_entry(m, e, &nothing, NULL);
    return r;
}

int trace_manager_update(struct sonde_trace_manager *m, const char *model, const struct trace_update *update,
                         struct trace_values *ret_values, const char **ret_why)
{
    int r = 0;
    pthread_mutex_lock(&m->lock);
    struct trace_entry *e = model ? *find_entry(m, model) : NULL;
    if (model && (!e || e->handles == 0))
        r = -ENOENT;
    else if (update)
        r = e ? update_entry(m, e, update, ret_why) : update_global(m, update, ret_why);
    if (r == 0)
        *ret_values = e && e->own.settings ? e->own.values : m->global.values;
    pthread_mutex_unlock(&m->lock);
    return r;
}
