/* See request_paths.h. */
#include "signals/request/request_paths.h"

#include "base/clock.h"
#include "diagnose/critical_path.h"
#include "sources/tables/flight_recorder.h"

#include <linux/types.h>

#include "probes/recorder/recorder.h"
#include "probes/request.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* What a second may cost on average, and what may be saved up. */
#define BUDGET_NS_PER_SECOND 10000000
#define BUDGET_MAX_NS        50000000
#define RECORDS_MAX          65536
/* What led to the request's first read, and how its end shows: an earlier wake-up, the end of a system call. */
#define BEFORE_NS 50000000
#define AFTER_NS  1000000

#define MEAN_OF   16

enum outcome { FOUND, NO_RECORDS, OVER_BUDGET, OUTCOMES };

struct request_paths {
    struct flight_recorder *recorder;
    int64_t budget_ns;
    uint64_t refilled_ns;
    uint64_t mean_ns; /* duration of the last requests, about MEAN_OF of them */
    uint64_t outcomes[OUTCOMES];
    uint64_t cpu_ns;
};

int request_paths_new(struct flight_recorder *recorder, struct request_paths **ret)
{
    struct request_paths *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->recorder = recorder;
    p->budget_ns = BUDGET_MAX_NS;
    *ret = p;
    return 0;
}

void request_paths_free(struct request_paths *p)
{
    free(p);
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The last half of what was saved up is for requests that are slower than others: the sample of ordinary ones would
 * spend it on a busy node. */
static bool has_budget(struct request_paths *p, uint64_t now_ns, uint64_t duration_ns)
{
    const uint64_t passed_ns = p->refilled_ns ? now_ns - p->refilled_ns : 0;
    const int64_t refill_ns = (int64_t)(passed_ns / 1000000000.0 * BUDGET_NS_PER_SECOND);
    if (refill_ns > 0 || !p->refilled_ns) {
        p->budget_ns += refill_ns;
        p->refilled_ns = now_ns;
    }
    if (p->budget_ns > BUDGET_MAX_NS)
        p->budget_ns = BUDGET_MAX_NS;
    const bool is_slow = duration_ns >= p->mean_ns;
    p->mean_ns += ((int64_t)duration_ns - (int64_t)p->mean_ns) / MEAN_OF;
    return p->budget_ns > (is_slow ? 0 : BUDGET_MAX_NS / 2);
}

static int find_path(struct request_paths *p, const struct request_record *record, bool schedules_itself,
                     struct path_segments *ret)
{
    const struct critical_path_request request = {
        .socket = record->socket,
        .start_ns = record->start_ns,
        .read_ns = record->start_ns + record->unread_ns,
        .end_ns = record->start_ns + record->duration_ns,
        .tid = record->h.tid,
        .schedules_itself = schedules_itself,
    };
    struct flight_window window;
    const uint64_t from_ns = request.start_ns > BEFORE_NS ? request.start_ns - BEFORE_NS : 0;
    int r = flight_recorder_window(p->recorder, from_ns, request.end_ns + AFTER_NS, RECORDS_MAX, &window);
    if (r < 0)
        return r;
    r = window.count ? critical_path_find(&window, &request, ret) : -ENODATA;
    flight_recorder_window_free(&window);
    return r;
}

int request_paths_find(struct request_paths *p, const struct request_record *record, bool schedules_itself,
                       struct path_segments *ret)
{
    *ret = (struct path_segments){0};
    if (!p->recorder)
        return -ENODATA;
    if (!has_budget(p, clock_monotonic_ns(), record->duration_ns)) {
        p->outcomes[OVER_BUDGET]++;
        return -EBUSY;
    }
    const uint64_t start_ns = thread_cpu_ns();
    const int r = find_path(p, record, schedules_itself, ret);
    const uint64_t spent_ns = thread_cpu_ns() - start_ns;
    p->budget_ns -= (int64_t)spent_ns;
    p->cpu_ns += spent_ns;
    p->outcomes[r == 0 ? FOUND : NO_RECORDS]++;
    return r;
}

void request_paths_metrics(const struct request_paths *p, struct metric_set *set)
{
    static const char *const names[OUTCOMES] = {"found", "no_records", "over_budget"};
    if (!p->recorder)
        return;
    for (int i = 0; i < OUTCOMES; i++)
        metric_add(set, "sonde_self_request_paths", METRIC_COUNTER, "",
                   "Critical paths of slow requests, by outcome: found; no_records: the flight recorder had nothing of "
                   "the request; over_budget: not looked for.",
                   (double)p->outcomes[i], METRIC_LABELS({"outcome", names[i]}));
    metric_add(set, "sonde_self_request_paths_cpu_seconds", METRIC_COUNTER, "seconds",
               "CPU time spent on finding critical paths.", (double)p->cpu_ns / 1e9, METRIC_NO_LABELS);
}
