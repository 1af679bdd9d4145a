/* The tracing state of one server: settings by model, writer, counters. */
#pragma once

#include "ids.h"
#include "metrics_exporter.h"
#include "node.h"
#include "otlp_sink.h"
#include "writer.h"

#define TRACE_BUCKETS 1024

/* A model name. Lives as long as the manager: settings outlive an unload, and traces point to the name. */
struct trace_entry {
    struct trace_entry *next;
    struct trace_sampler *_Atomic sampler; /* its own, or the manager's */
    struct trace_sampler own;              /* in use if it has a settings object */
    unsigned handles;
    char name[];
};

struct sonde_trace_model {
    struct sonde_trace_manager *manager;
    struct trace_entry *entry;
    int64_t version;
};

struct sonde_trace_manager {
    atomic_uint refs; /* held by the owner, models and requests in flight */
    struct sonde_trace_config *config;
    uint64_t tensor_bytes_max, request_bytes_max;
    pthread_mutex_t lock; /* protects the members up to the counters; held briefly */
    struct trace_sampler global;
    struct trace_entry *entries[TRACE_BUCKETS];
    uint32_t entry_count;
    atomic_uint_least64_t sampled, records_dropped;
    struct trace_ids ids;
    struct trace_writer writer;
    char *provider;                  /* gen_ai.provider.name */
    char where[OTLP_URL_SHOWN_SIZE]; /* receiver URL for messages */
    struct trace_metrics metrics;
    struct trace_metrics_exporter exporter;
    struct sonde_trace_manager *next; /* in the list of fork.c */
};

struct otlp_transport;

/* Implements sonde_trace_manager_new; `transport` is used in mode opentelemetry. */
int trace_manager_new(const struct sonde_trace_config *config, const struct sonde_trace_options *options,
                      const struct otlp_transport *transport, struct sonde_trace_manager **ret_manager, char *why,
                      size_t why_size);

void trace_manager_unref(struct sonde_trace_manager *m);

/* Applies an update (NULL: none) to the global settings (`model` NULL) or a model's, and returns the resulting
 * values. -ENOENT: no such model is loaded; -EINVAL with the reason in *ret_why (a literal); -ENOMEM. */
int trace_manager_update(struct sonde_trace_manager *m, const char *model, const struct trace_update *update,
                         struct trace_values *ret_values, const char **ret_why);

/* Called by fork.c: takes all locks before a fork and releases them afterwards; the child discards the parent's
 * state. */
void trace_manager_before_fork(struct sonde_trace_manager *m);
void trace_manager_after_fork(struct sonde_trace_manager *m, bool child);
