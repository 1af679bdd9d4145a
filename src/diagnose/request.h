/* Turns the event record of a request into an explanation: method and route, latency breakdown, main cause. Pure: the
 * same record, path and names give the same request. Names of processes and code come from the pipeline through
 * functions. */
#pragma once

#include "base/cleanup.h"
#include "diagnose/path/path_names.h"
#include "diagnose/path/path_segments.h"
#include "model/request.h"
#include "model/resource.h"

#include <linux/types.h>

#include "probes/request.h"

struct request_names {
    void *context;
    /* The resource of the process, or NULL if it exited unseen. Valid at least until diagnose_request returns, also
     * when other names are resolved in between. NULL: never available. */
    const struct resource *(*resource)(void *context, uint32_t pid, uint64_t cgroup_id);
    struct path_names path;
};

/* Why the critical path of a request is not known. */
enum request_no_path {
    REQUEST_NO_RECORDER,
    REQUEST_NO_RECORDS, /* the flight recorder has nothing of it, or not any more */
    REQUEST_NO_BUDGET,  /* of CPU time, to look for it */
    REQUEST_NO_REASONS
};

struct route;

/* Sets the method and the route of the request. False: it is not a request, although it looked like one at first. */
bool diagnose_route(const struct request_record *record, struct route *ret);

/* Creates the request; the caller owns *ret. `path`: its critical path, the source of its components. If it is NULL or
 * empty, the path is not known, for the reason `no_path`, and the request's time is unattributed. -EBADMSG: not HTTP,
 * although it looked like HTTP at first (the caller counts LOSS_DECODE); -ENOMEM. */
int diagnose_request(const struct request_record *record, const struct path_segments *path,
                     enum request_no_path no_path, const struct request_names *names, struct request **ret);
