/* A receiver of traces and metrics that counts packets, keeps the last metrics, and answers them as scripted. */
#pragma once

#include "transport.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t receiver_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    int traces, metrics;
    char *last_metrics;
    size_t largest_metrics;
    int answer; /* answer to metrics: a status, or -errno */
} receiver;
static char connections[2]; /* of traces, of metrics */

static int keep_open(const struct otlp_transport_options *o, void **ret_connection, char *why, size_t why_size)
{
    if (strncmp(o->url, "http://", 7) != 0 || (o->rpc && otlp_url_has_path(o->url))) {
        snprintf(why, why_size, "%s", o->rpc ? "a URL of gRPC has no path" : "bad");
        return -EINVAL;
    }
    *ret_connection = &connections[strcmp(o->url, "http://r/v1/metrics") == 0];
    return 0;
}

static int keep_post(void *connection, const void *data, size_t size, struct otlp_answer *ret_answer)
{
    bool metrics = connection == &connections[1];
    pthread_mutex_lock(&receiver_lock);
    if (metrics) {
        free(receiver.last_metrics);
        receiver.last_metrics = strndup(data, size);
        receiver.largest_metrics = size > receiver.largest_metrics ? size : receiver.largest_metrics;
    }
    (*(metrics ? &receiver.metrics : &receiver.traces))++;
    answer_with(ret_answer, metrics && receiver.answer ? receiver.answer : 200);
    pthread_mutex_unlock(&receiver_lock);
    return 0;
}

static const struct otlp_transport keeping = {OTLP_TRANSPORT_VERSION, keep_open, keep_post, discard_close};

/* While the exporter continues to send. */
static inline bool last_metrics_say(const char *text)
{
    pthread_mutex_lock(&receiver_lock);
    bool said = receiver.last_metrics && strstr(receiver.last_metrics, text);
    pthread_mutex_unlock(&receiver_lock);
    return said;
}
