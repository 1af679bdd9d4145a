/* Sends the figures of generations to a receiver: all of them, every so often, from a thread that begins with
 * the first generation, and once more at the end. What does not arrive is made good by the next packet, for
 * figures are counted from the start; only what the last one does not deliver is lost. */
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
    char *url; /* NULL: nothing is sent */
    enum otlp_protocol protocol;
    void (*on_error)(void *argument, int error, const char *message);
    void *argument;
    struct trace_ids *ids;

    atomic_bool started;             /* nobody needs to start the thread */
    atomic_uint_least64_t closed_ns; /* since when the program waits for the end */
    pthread_mutex_t lock;            /* of what follows */
    pthread_cond_t wake, done;
    pthread_t thread;
    bool running, stop;
    uint64_t asked, made; /* packets that somebody waits for, and the last one that was dealt with */

    /* the thread's own */
    struct otlp_sender sender;
    struct trace_text packet;
    char instance[40];
    int last_error;
    bool rejecting;

    atomic_uint_least64_t sent, lost, errors, rejected;
};

/* All but `user` is borrowed. Without a transport, or when the settings say that nothing is to be sent, it
 * does nothing; nor, having told `user`, with a receiver of the environment's that is none. -EINVAL with the
 * reason in `why`; -ENOMEM; a failed one needs no trace_metrics_exporter_fini. */
int trace_metrics_exporter_init(struct trace_metrics_exporter *e, const struct sonde_trace_config *config,
                                const struct sonde_trace_options *user, struct trace_metrics *metrics,
                                const struct otlp_transport *transport, struct trace_ids *ids, const char *provider,
                                char *why, size_t why_size);

/* There is something to send. On a thread that serves requests. */
static inline bool trace_metrics_exporter_is_started(struct trace_metrics_exporter *e)
{
    return atomic_load_explicit(&e->started, memory_order_relaxed);
}

void trace_metrics_exporter_start(struct trace_metrics_exporter *e);

/* Waits until what was counted before the call has been sent, or could not be. -ETIMEDOUT. */
int trace_metrics_exporter_flush(struct trace_metrics_exporter *e, unsigned timeout_ms);

/* Asks the thread to end; waits for that. */
void trace_metrics_exporter_stop(struct trace_metrics_exporter *e);
void trace_metrics_exporter_join(struct trace_metrics_exporter *e);
void trace_metrics_exporter_fini(struct trace_metrics_exporter *e);

/* The lock is held. */
void trace_metrics_exporter_reset_in_child(struct trace_metrics_exporter *e);
