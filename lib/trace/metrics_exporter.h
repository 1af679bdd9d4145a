/* Exports generation metrics to a receiver: all of them at each interval, from a thread that starts with the first
 * generation, and once more at the end. Metrics are cumulative, so the next packet makes up for an undelivered one;
 * only an undelivered last packet is a loss. */
#pragma once

#include "metrics.h"
#include "text.h"

#include "../otlp/sender.h"

#include <sonde/trace.h>

struct sonde_trace_config;

struct trace_metrics_exporter {
    /* set once */
    const struct sonde_trace_config *config;
    struct trace_metrics *metrics;
    const char *provider;
    char *url; /* NULL: nothing is exported */
    enum otlp_protocol protocol;
    void (*on_error)(void *argument, int error, const char *message);
    void *argument;
    struct trace_ids *ids;

    atomic_bool started;             /* the thread is running or not needed */
    atomic_uint_least64_t closed_ns; /* when the shutdown began; 0: it did not */
    pthread_mutex_t lock;            /* protects the following members */
    pthread_cond_t wake, done;
    pthread_t thread;
    bool running, stop;
    uint64_t flushes_requested,
        flushes_completed; /* number of the latest requested flush, and of the latest completed one */

    /* used by the thread only */
    struct otlp_sender sender;
    struct trace_text packet;
    char instance[40];
    int last_error;
    bool rejecting;

    atomic_uint_least64_t sent, lost, errors, rejected;
};

/* Initialises the exporter. All pointers except `user` are borrowed. Without a transport, or if the settings disable
 * the export, it does nothing; likewise if the environment's URL is invalid, which is reported to `user`. -EINVAL
 * with the reason in `why`; -ENOMEM; no trace_metrics_exporter_fini after a failure. */
int trace_metrics_exporter_init(struct trace_metrics_exporter *e, const struct sonde_trace_config *config,
                                const struct sonde_trace_options *user, struct trace_metrics *metrics,
                                const struct otlp_transport *transport, struct trace_ids *ids, const char *provider,
                                char *why, size_t why_size);

/* Whether the thread need not be started. Called on request threads. */
static inline bool trace_metrics_exporter_is_started(struct trace_metrics_exporter *e)
{
    return atomic_load_explicit(&e->started, memory_order_relaxed);
}

void trace_metrics_exporter_start(struct trace_metrics_exporter *e);

/* Waits until everything counted before the call was sent or failed. -ETIMEDOUT. */
int trace_metrics_exporter_flush(struct trace_metrics_exporter *e, unsigned timeout_ms);

/* Asks the thread to end. */
void trace_metrics_exporter_stop(struct trace_metrics_exporter *e);
void trace_metrics_exporter_join(struct trace_metrics_exporter *e);
void trace_metrics_exporter_fini(struct trace_metrics_exporter *e);

/* Called with the lock held. */
void trace_metrics_exporter_reset_in_child(struct trace_metrics_exporter *e);
