/* The node agent: pipeline, time windows of the last minutes, budget, and the queries of the web page. `sonde up` and
 * `sonde agent` run it. The pipeline runs on the caller's thread; the query functions may be called on any thread. */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "config/config.h"
#include "model/attach.h"
#include "model/connection_end.h"
#include "model/coverage.h"
#include "model/heatmap.h"
#include "model/hotspots.h"
#include "model/metric.h"
#include "model/profile.h"
#include "model/request.h"
#include "model/request_route.h"

#include <stddef.h>
#include <stdint.h>

struct agent;

/* Creates an agent: opens and attaches everything that the configuration enables, and logs what could not be
 * attached. `config` is copied; `revision`, of the source that was built, is borrowed ("": not known). The caller frees
 * `*ret`. -EBUSY: another agent runs on this node (logged); other
 * errors: nothing could be attached, or -ENOMEM. SIGINT and SIGTERM received from here on end agent_run, so that a stop
 * request that arrives before agent_run is not lost. */
int agent_new(const struct config *config, const char *revision, struct agent **ret);
void agent_free(struct agent *a);
DEFINE_FREEP(agent)

/* Dry run: attaches what agent_new would attach, writes the result to `report` (also on failure) and detaches. Does
 * not take the lock of the node's agent. */
int agent_try(const struct config *config, struct attach_report *report);

/* Called on the thread of agent_run. */
struct agent_hooks {
    void *context;
    void (*reload)(void *context); /* after SIGHUP */
    void (*tick)(void *context);   /* once a second */
};

/* Runs until SIGINT or SIGTERM; once. When the probes count, `ready_fd` is notified (base/ready_fd.h) and closed; -1:
 * none. 0, or -errno: a source cannot start or failed. */
int agent_run(struct agent *a, int ready_fd, const struct agent_hooks *hooks);

/* Changes budget.one_cpu, on the thread of agent_run. */
void agent_set_one_cpu_share(struct agent *a, double share);
/* Changes budget.memory, on the thread of agent_run. Windows, requests and caches follow at once; a smaller limit drops
 * the oldest samples and requests, and counts that. -ENOSPC, logged: the tables that keep their size until a restart
 * leave too little; nothing is changed. */
int agent_set_memory(struct agent *a, uint64_t bytes);
/* Replaces profile.sampling_rules by the rules in `config`, on the thread of agent_run. -EOPNOTSUPP: the loaded
 * programs cannot apply them; nothing is changed. */
int agent_set_sampling_rules(struct agent *a, const struct config *config);
/* The configuration in force has changed to `config`, which the agent reports (opamp.endpoint). */
void agent_set_reported_config(struct agent *a, const struct config *config);

/* Queries of the web page: any thread, between agent_new and agent_free. `agent` is a struct agent: they are callbacks
 * of serve/page.h, which states their errors. Times are CLOCK_MONOTONIC; `seconds` is the length of the period until
 * now. On success the caller frees what `ret` points to; of requests each one and the array. agent_events appends,
 * agent_metrics adds. */
int agent_profile(void *agent, uint64_t seconds, const struct profile_filter *filter, struct profile **ret);
int agent_region(void *agent, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                 struct profile **ret);
int agent_heatmap(void *agent, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                  struct heatmap **ret);
int agent_hotspots(void *agent, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                   const struct hotspots_options *hotspots, struct hotspots **ret);
int agent_requests(void *agent, uint64_t seconds, size_t max, enum request_choice which, struct request ***ret,
                   size_t *ret_count);
int agent_routes(void *agent, uint64_t seconds, struct request_route **ret, size_t *ret_count);
int agent_calls(void *agent, uint64_t seconds, struct service_call **ret, size_t *ret_count);
int agent_events(void *agent, uint64_t seconds, size_t max, struct buf *out);
void agent_coverage(void *agent, enum coverage_subject subject, uint64_t seconds, struct coverage *ret);
int agent_metrics(void *agent, struct metric_set *set);
uint64_t agent_idle_ns(void *agent);
void agent_hold(void *agent, int64_t bytes);
void agent_connection_ended(void *agent, enum connection_end end);
int agent_status(void *agent, char **ret_json);
