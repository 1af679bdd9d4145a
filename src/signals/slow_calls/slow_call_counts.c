/* Two tables, searched from their beginnings: slow waits are few. See slow_call_counts.h. */
#include "signals/slow_calls/slow_call_counts.h"

#include "model/metric.h"
#include "model/service_names.h"
#include "signals/event_rate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVICES_MAX 64
#define SERIES_MAX   256
#define CALL_BYTES   32
#define MINUTE_NS    60000000000ull

/* Of a service. */
struct slowest {
    uint64_t ns, end_ns; /* of its last event */
    uint64_t count;      /* of waits since then */
};

struct series {
    size_t service; /* its place in the names */
    char call[CALL_BYTES];
    uint64_t count, ns;
};

struct slow_call_counts {
    char names[SERVICES_MAX][SERVICE_NAME_BYTES];
    struct slowest slowest[SERVICES_MAX];
    size_t name_count, series_count;
    struct series series[SERIES_MAX];
    struct event_rate rate;
};

int slow_call_counts_new(struct slow_call_counts **ret)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : -ENOMEM;
}

void slow_call_counts_free(struct slow_call_counts *c)
{
    free(c);
}

static struct series *find_series(struct slow_call_counts *c, size_t service, const char *call)
{
    for (size_t i = 0; i < c->series_count; i++)
        if (c->series[i].service == service && strcmp(c->series[i].call, call) == 0)
            return &c->series[i];
    return NULL;
}

/* The last series is that of all services and calls for which there is no room. */
static struct series *series_of(struct slow_call_counts *c, size_t service, const char *call)
{
    struct series *s = find_series(c, service, call);
    if (s)
        return s;
    if (c->series_count == SERIES_MAX)
        return &c->series[SERIES_MAX - 1];
    s = &c->series[c->series_count++];
    if (c->series_count == SERIES_MAX) {
        service = service_names_place(c->names, SERVICES_MAX, &c->name_count, "other");
        call = "other";
    }
    s->service = service;
    snprintf(s->call, sizeof(s->call), "%s", call);
    return s;
}

bool slow_call_counts_add(struct slow_call_counts *c, const char *service, const char *call, uint64_t ns,
                          uint64_t end_ns, uint64_t *ret_count)
{
    const size_t place = service_names_place(c->names, SERVICES_MAX, &c->name_count, service);
    struct series *series = series_of(c, place, call);
    struct slowest *slowest = &c->slowest[place];
    series->count++;
    series->ns += ns;
    slowest->count++;
    if ((slowest->ns >= ns && end_ns - slowest->end_ns < MINUTE_NS) || !event_rate_allows(&c->rate, end_ns))
        return false;
    *ret_count = slowest->count;
    *slowest = (struct slowest){ns, end_ns, 0};
    return true;
}

void slow_call_counts_metrics(const struct slow_call_counts *c, struct metric_set *set)
{
    for (size_t i = 0; i < c->series_count; i++) {
        const struct series *s = &c->series[i];
        const struct metric_label labels[] = {{"service_name", c->names[s->service]}, {"system_call", s->call}};
        metric_add(set, "sonde_slow_calls_waits", METRIC_COUNTER, "",
                   "Waits in system calls of slow_calls.threshold or longer.", (double)s->count, labels,
                   array_size(labels));
        metric_add(set, "sonde_slow_calls_wait_seconds", METRIC_COUNTER, "seconds", "Time of these waits.",
                   (double)s->ns / 1e9, labels, array_size(labels));
    }
}
