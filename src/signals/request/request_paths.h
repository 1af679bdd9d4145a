/* The critical paths of requests: reads the flight recorder and walks, within a budget of CPU time. Pipeline thread
 * only. */
#pragma once

#include "base/cleanup.h"
#include "diagnose/request.h"
#include "model/metric.h"
#include "sources/source.h"

#include <stdint.h>

struct flight_recorder;
struct request_paths;
struct request_record;

/* A request that has just ended. */
struct request_path {
    const struct request_record *record;
    const struct request_stream_record *stream; /* NULL: its reply is not a stream */
    bool schedules_itself;                      /* its program puts its work on threads by a scheduler of its own */
    uint64_t route;                             /* route_slowest_key */
    bool is_done;                               /* it has been looked for */
    struct path_segments segments;              /* found, or empty, */
    enum request_no_path no_path;               /* for this reason */
};

/* `recorder` is borrowed; NULL: no path is ever found. `agent_cpus`: how many CPUs the whole agent may use; two fifths
 * of that are for paths and their texts, and 1 % of a CPU at least. The caller frees `*ret`. -ENOMEM. */
int request_paths_new(struct flight_recorder *recorder, double agent_cpus, struct request_paths **ret);
void request_paths_free(struct request_paths *p);
DEFINE_FREEP(request_paths)

/* Finds the critical paths of the requests of a turn as far as the budget allows, the slowest requests first. Requests
 * that lie close together in time share one window of the recorder. The caller sets `record` and `schedules_itself`,
 * sets the rest to zero, and clears `segments` with path_segments_clear. */
void request_paths_find(struct request_paths *p, struct request_path *requests, size_t count);

/* The texts of paths took this time. */
void request_paths_spend(struct request_paths *p, uint64_t cpu_ns);

/* From this level of detail on fewer paths are looked for, or none. */
void request_paths_shed(struct request_paths *p, enum source_detail detail);

void request_paths_metrics(const struct request_paths *p, struct metric_set *set);
