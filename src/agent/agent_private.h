/* The state of the agent, shared by agent.c (lifecycle, sink, budget) and agent_queries.c (what the page asks). */
#pragma once

#include "agent/agent.h"
#include "agent/budget.h"
#include "export/opamp_agent.h"
#include "model/memory_plan.h"
#include "pipeline/pipeline.h"
#include "pipeline/sampling_pods.h"
#include "sources/sampling/sampling_rules.h"

#include <pthread.h>
#include <stdatomic.h>

/* Pipeline statistics, copied once a second so that readers never wait for a turn of the pipeline. Only `metrics` are
 * older: they are collected on request. */
struct agent_stats {
    struct metric_set *metrics;
    uint64_t metrics_ns; /* when they were collected */
    struct losses losses;
    uint64_t samples, waits, helper_cpu_ns;
    struct sampling_rule_stats rules[SAMPLING_RULES_MAX + 1]; /* the last: threads that match no rule */
};

struct agent {
    struct config config;
    const char *revision;        /* of the source that was built; "": not known */
    struct memory_plan memory;   /* changes under `lock` */
    struct sampling_rules rules; /* changes under `lock` */
    struct sampling_pods sampling_pods;
    struct pipeline *pipeline;
    struct loop *loop;
    int ready_fd; /* this and the following: of agent_run */
    const struct agent_hooks *hooks;
    struct windows *windows;
    struct wait_seconds *wait_seconds;
    struct requests *requests;
    struct node_events *events;
    struct opaque_ports *opaque_ports;
    struct service_calls *calls;
    struct cpu_users *cpu_users;
    struct profile_export *profile_export; /* NULL: no receiver is configured */
    struct metrics_export *metrics_export; /* likewise */
    struct span_export *span_export;       /* likewise */
    struct event_export *event_export;     /* likewise */
    struct opamp_client *opamp;            /* NULL: no server is configured */
    struct attach_report report;           /* of the start; the texts of the sampling rules change under `lock` */
    int lock_fd;
    uint64_t start_ns, start_unix_ns;
    uint64_t ticks, flush_ticks, memory_bytes;
    uint64_t memory_warning_ns;        /* when the last warning about memory was logged; 0: never */
    uint64_t cache_cuts, history_cuts; /* under `lock` */

    _Atomic uint64_t last_turn_ns; /* of the main thread; at first, when it started */
    _Atomic int64_t answer_bytes;  /* replies of the page under way, which have a limit of their own */
    _Atomic uint64_t connections_ended[CONNECTION_END_COUNT];

    pthread_mutex_t lock; /* protects what the page's threads read: */
    struct budget budget;
    char reduced[384]; /* what budget.detail reduces, in words; "": nothing */
    struct agent_stats stats;
    uint64_t metrics_collections;
    uint64_t metrics_due_ns; /* before this time, they are not collected again */
    pthread_cond_t metrics_collected;
};

/* For opamp_client.h, on its thread; also while the pipeline is freed. */
void agent_health(void *agent, struct opamp_health *ret);
int agent_check_capture(void *agent, const struct opamp_capture *capture, char *why, size_t why_size);
int agent_capture(void *agent, const struct opamp_capture *capture, uint64_t from_ns, uint64_t to_ns,
                  struct profile **ret);
/* agent_metrics, for metrics_export.h. */
int agent_collect_metrics(void *agent, struct metric_set *set, uint64_t *ret_read_ns);
