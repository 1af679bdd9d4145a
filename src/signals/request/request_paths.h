/* The critical paths of slow requests: reads the flight recorder and walks, within a budget of CPU time. Pipeline
 * thread only. */
#pragma once

#include "base/cleanup.h"
#include "diagnose/path_segments.h"
#include "model/metric.h"

#include <stdint.h>

struct flight_recorder;
struct request_paths;
struct request_record;

/* `recorder` is borrowed; NULL: no path is ever found. The caller frees `*ret`. -ENOMEM. */
int request_paths_new(struct flight_recorder *recorder, struct request_paths **ret);
void request_paths_free(struct request_paths *p);
DEFINE_FREEP(request_paths)

/* Finds the critical path of a request that has just ended, of a program that schedules its work on threads itself, or
 * not; clear it with path_segments_clear, also on failure.
 * -ENODATA: the recorder has nothing of it, or there is none; -EBUSY: the budget is spent; -ENOMEM. */
int request_paths_find(struct request_paths *p, const struct request_record *record, bool schedules_itself,
                       struct path_segments *ret);

void request_paths_metrics(const struct request_paths *p, struct metric_set *set);
