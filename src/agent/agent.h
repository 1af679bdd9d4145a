/* The node agent: pipeline, windows of the last minutes, budget, and what a page may ask of them. `sonde up` and `sonde
 * agent` are this. The pipeline runs on the caller's thread; the functions that a page calls may come from any. */
#pragma once

#include "agent/config.h"
#include "base/cleanup.h"
#include "model/attach.h"
#include "model/heatmap.h"
#include "model/hotspots.h"
#include "model/metric.h"
#include "model/profile.h"
#include "model/request.h"

#include <stddef.h>
#include <stdint.h>

struct agent;

/* Opens and attaches all that the configuration wants; logs what could not be. -EBUSY: another agent runs on this node
 * (logged). From then on SIGINT and SIGTERM end agent_run, so that nobody who finds its page can stop it too early to
 * be heard. */
int agent_new(const struct config *config, struct agent **ret);
void agent_free(struct agent *a);
DEFINE_FREEP(agent)

/* What agent_new would attach is attached, told in `report` (also on failure) and let go: no agent of the node comes of
 * it. */
int agent_try(const struct config *config, struct attach_report *report);

/* Works until SIGINT or SIGTERM. When it counts, `ready_fd` is notified (base/ready_fd.h) and closed; -1: none. */
int agent_run(struct agent *a, int ready_fd);

/* For a page (any thread); see serve/page.h. */
int agent_profile(void *agent, uint64_t seconds, const struct profile_filter *filter, struct profile **ret);
int agent_region(void *agent, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                 struct profile **ret);
int agent_heatmap(void *agent, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                  struct heatmap **ret);
int agent_hotspots(void *agent, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                   const struct hotspots_options *hotspots, struct hotspots **ret);
int agent_requests(void *agent, uint64_t seconds, size_t max, struct request ***ret, size_t *ret_count);
int agent_metrics(void *agent, struct metric_set *set);
int agent_status(void *agent, char **ret_json);
