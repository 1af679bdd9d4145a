/* See request_paths.h. */
#include "signals/request/request_paths.h"

#include "base/clock.h"
#include "diagnose/flight/flight_index.h"
#include "diagnose/path/critical_path.h"
#include "signals/request/route_slowest.h"
#include "sources/tables/flight_recorder.h"

#include <linux/types.h>

#include "probes/recorder/recorder.h"
#include "probes/request.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define LEAST_BUDGET_NS 10000000  /* what a second may cost on average, at least */
#define MOST_BUDGET_NS  250000000 /* the pipeline has other work, too */
#define BUDGET_OF_AGENT 0.4       /* share of the whole agent's CPU limit: below the level that reduces its detail */
#define BUDGET_MAX_NS   50000000  /* most unused budget that is kept: for so long the pipeline may stand still */
#define RECORDS_MAX     65536
/* What led to the request's first read, and how its end shows: an earlier wake-up, the end of a system call. */
#define BEFORE_NS 50000000
#define AFTER_NS  1000000

/* The longest window that is shared, until the last one showed how many records there are. */
#define WINDOW_MAX_NS 1000000000
#define MEAN_OF       16

struct interval {
    uint64_t from_ns, to_ns;
};

enum outcome { FOUND, NO_RECORDS, OVER_BUDGET, OUTCOMES };

struct request_paths {
    struct flight_recorder *recorder;
    int64_t budget_ns_per_second, budget_ns;
    uint64_t refilled_ns;
    struct route_slowest slowest;
    enum source_detail detail;
    uint64_t mean_ns;   /* duration of the last requests, about MEAN_OF of them */
    uint64_t window_ns; /* length of the window that requests share: half the time that RECORDS_MAX covered in the last
                           one */
    uint64_t outcomes[OUTCOMES];
    uint64_t cpu_ns;
};

int request_paths_new(struct flight_recorder *recorder, double agent_cpus, struct request_paths **ret)
{
    struct request_paths *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->recorder = recorder;
    p->budget_ns_per_second = (int64_t)(agent_cpus * BUDGET_OF_AGENT * 1e9);
    if (p->budget_ns_per_second < LEAST_BUDGET_NS)
        p->budget_ns_per_second = LEAST_BUDGET_NS;
    if (p->budget_ns_per_second > MOST_BUDGET_NS)
        p->budget_ns_per_second = MOST_BUDGET_NS;
    p->budget_ns = BUDGET_MAX_NS;
    p->window_ns = WINDOW_MAX_NS;
    *ret = p;
    return 0;
}

void request_paths_free(struct request_paths *p)
{
    free(p);
}

static void refill_budget(struct request_paths *p, uint64_t now_ns)
{
    const uint64_t passed_ns = p->refilled_ns ? now_ns - p->refilled_ns : 0;
    p->budget_ns += (int64_t)(passed_ns / 1e9 * (double)p->budget_ns_per_second);
    if (p->budget_ns > BUDGET_MAX_NS)
        p->budget_ns = BUDGET_MAX_NS;
    p->refilled_ns = now_ns;
}

/* On a busy node the sample of ordinary requests would spend the whole budget. The last half of the saved budget is
 * therefore kept for requests that are slower than others, and for those in a window that is read anyway
 * (`is_in_window`): their paths cost little. The slowest of its route in the last seconds may overdraw the budget by
 * half as much as can be saved. */
static bool has_budget(const struct request_paths *p, const struct request_path *request, bool is_in_window)
{
    const uint64_t duration_ns = request->record->duration_ns;
    if (p->detail >= SOURCE_DETAIL_LEAST)
        return false;
    if (route_slowest_is(&p->slowest, request->route, duration_ns, p->refilled_ns))
        return p->budget_ns > -BUDGET_MAX_NS / 2;
    return p->detail < SOURCE_DETAIL_SLOWEST_PATHS &&
           p->budget_ns > (is_in_window || duration_ns >= p->mean_ns ? 0 : BUDGET_MAX_NS / 2);
}

static struct interval recorded_interval(const struct request_record *r)
{
    const uint64_t end_ns = r->start_ns + r->duration_ns;
    return (struct interval){r->start_ns > BEFORE_NS ? r->start_ns - BEFORE_NS : 0, end_ns + AFTER_NS};
}

static bool contains(const struct interval *a, const struct interval *b)
{
    return a->from_ns <= b->from_ns && b->to_ns <= a->to_ns;
}

/* Returns the interval of `first`. While enough budget is saved, it is extended to the intervals of other requests, as
 * far as a window may reach: each request then costs less, but all of them more. */
static struct interval shared_interval(const struct request_paths *p, const struct request_path *first,
                                       const struct request_path *requests, size_t count)
{
    struct interval shared = recorded_interval(first->record);
    for (size_t i = 0; i < count; i++) {
        const struct interval one = recorded_interval(requests[i].record);
        const uint64_t from_ns = one.from_ns < shared.from_ns ? one.from_ns : shared.from_ns,
                       to_ns = one.to_ns > shared.to_ns ? one.to_ns : shared.to_ns;
        if (!requests[i].is_done && to_ns - from_ns <= p->window_ns && p->budget_ns > BUDGET_MAX_NS / 2 &&
            has_budget(p, &requests[i], false))
            shared = (struct interval){from_ns, to_ns};
    }
    return shared;
}

static void find_path(struct request_paths *p, const struct flight_index *index, struct request_path *request)
{
    const struct request_record *record = request->record;
    const struct critical_path_request wanted = {
        .socket = record->socket,
        .start_ns = record->start_ns,
        .read_ns = record->start_ns + record->unread_ns,
        .end_ns = record->start_ns + record->duration_ns,
        .tid = record->h.tid,
        .is_shared = record->flags & REQUEST_SHARED,
        .schedules_itself = request->schedules_itself,
    };
    request->is_done = true;
    route_slowest_add(&p->slowest, request->route, record->duration_ns, p->refilled_ns);
    const bool is_found = index && critical_path_find(index, &wanted, &request->segments) == 0;
    if (!is_found)
        path_segments_clear(&request->segments);
    request->no_path = REQUEST_NO_RECORDS;
    p->outcomes[is_found ? FOUND : NO_RECORDS]++;
}

void request_paths_spend(struct request_paths *p, uint64_t cpu_ns)
{
    p->budget_ns -= (int64_t)cpu_ns;
    p->cpu_ns += cpu_ns;
}

static void pass_time(struct request_paths *p, uint64_t *since_ns)
{
    const uint64_t now_ns = clock_thread_cpu_ns();
    request_paths_spend(p, now_ns - *since_ns);
    *since_ns = now_ns;
}

/* Finds the path of `first`, and of the others that lie in the same window. */
static void find_paths(struct request_paths *p, struct request_path *first, struct request_path *requests, size_t count)
{
    uint64_t since_ns = clock_thread_cpu_ns();
    const struct interval shared = shared_interval(p, first, requests, count);
    struct flight_window window = {0};
    _cleanup_(flight_index_freep) struct flight_index *index = NULL;
    if (flight_recorder_window(p->recorder, shared.from_ns, shared.to_ns, RECORDS_MAX, &window) == 0 && window.count) {
        const uint64_t wanted_ns = RECORDS_MAX / 2 * ((shared.to_ns - shared.from_ns) / window.count);
        p->window_ns = wanted_ns < WINDOW_MAX_NS ? wanted_ns : WINDOW_MAX_NS;
        flight_index_new(&window, &index);
    }
    find_path(p, index, first);
    pass_time(p, &since_ns);
    for (size_t i = 0; i < count; i++) {
        const struct interval one = recorded_interval(requests[i].record);
        if (requests[i].is_done || !contains(&shared, &one) || !has_budget(p, &requests[i], true))
            continue;
        find_path(p, index, &requests[i]);
        pass_time(p, &since_ns);
    }
    flight_recorder_window_free(&window);
}

static struct request_path *find_slowest(struct request_path *requests, size_t count)
{
    struct request_path *slowest = NULL;
    for (size_t i = 0; i < count; i++)
        if (!requests[i].is_done && (!slowest || requests[i].record->duration_ns > slowest->record->duration_ns))
            slowest = &requests[i];
    return slowest;
}

void request_paths_find(struct request_paths *p, struct request_path *requests, size_t count)
{
    if (!p->recorder)
        return;
    refill_budget(p, clock_monotonic_ns());
    for (size_t i = 0; i < count; i++) {
        requests[i].route = route_slowest_key(requests[i].record);
        p->mean_ns += ((int64_t)requests[i].record->duration_ns - (int64_t)p->mean_ns) / MEAN_OF;
    }
    for (struct request_path *slowest; (slowest = find_slowest(requests, count));) {
        if (has_budget(p, slowest, false)) {
            find_paths(p, slowest, requests, count);
        } else {
            slowest->is_done = true;
            slowest->no_path = REQUEST_NO_BUDGET;
            p->outcomes[OVER_BUDGET]++;
        }
    }
}

void request_paths_shed(struct request_paths *p, enum source_detail detail)
{
    p->detail = detail;
}

void request_paths_metrics(const struct request_paths *p, struct metric_set *set)
{
    static const char *const names[OUTCOMES] = {"found", "no_records", "over_budget"};
    if (!p->recorder)
        return;
    for (int i = 0; i < OUTCOMES; i++)
        metric_add(set, "sonde_self_request_paths", METRIC_COUNTER, "",
                   "Critical paths of slow requests, by outcome: found; no_records: the flight recorder had no "
                   "records of the request; over_budget: not computed, to keep to budget.one_cpu.",
                   (double)p->outcomes[i], METRIC_LABELS({"outcome", names[i]}));
    metric_add(set, "sonde_self_request_paths_cpu_seconds", METRIC_COUNTER, "seconds",
               "CPU time spent on finding critical paths and on their texts.", (double)p->cpu_ns / 1e9,
               METRIC_NO_LABELS);
}
