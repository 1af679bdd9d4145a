/* A table of services, each with a sum per reason; see wait_seconds.h. */
#include "aggregate/wait_seconds.h"

#include "model/service_names.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVICES_MAX 128
#define REASONS_MAX  16 /* eleven are in use */
#define KTHREADD     2  /* parent of the kernel threads, which share one name instead of one each */

struct wait_seconds {
    pthread_mutex_t lock;
    size_t service_count, reason_count;
    char reasons[REASONS_MAX][16];
    char services[SERVICES_MAX][SERVICE_NAME_BYTES];
    uint64_t ns[SERVICES_MAX][REASONS_MAX];
};

int wait_seconds_new(struct wait_seconds **ret)
{
    struct wait_seconds *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    pthread_mutex_init(&w->lock, NULL);
    *ret = w;
    return 0;
}

void wait_seconds_free(struct wait_seconds *w)
{
    if (!w)
        return;
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static size_t find_service(struct wait_seconds *w, const struct resource *resource)
{
    const bool is_kernel = resource->pid == KTHREADD || resource->parent_pid == KTHREADD;
    return service_names_place(w->services, SERVICES_MAX, &w->service_count,
                               is_kernel ? "kernel" : resource->service_name);
}

static size_t find_reason(struct wait_seconds *w, const char *reason)
{
    for (size_t i = 0; i < w->reason_count; i++)
        if (strcmp(w->reasons[i], reason) == 0)
            return i;
    if (w->reason_count < REASONS_MAX)
        snprintf(w->reasons[w->reason_count++], sizeof(w->reasons[0]), "%s", reason);
    return w->reason_count - 1;
}

void wait_seconds_add(struct wait_seconds *w, const struct sample *s)
{
    assert(s->wait_reason);
    pthread_mutex_lock(&w->lock);
    w->ns[find_service(w, s->resource)][find_reason(w, s->wait_reason)] += s->value;
    pthread_mutex_unlock(&w->lock);
}

void wait_seconds_metrics(struct wait_seconds *w, struct metric_set *set)
{
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < w->service_count; i++)
        for (size_t reason = 0; reason < w->reason_count; reason++)
            if (w->ns[i][reason])
                metric_add(set, "sonde_off_cpu_seconds", METRIC_COUNTER, "seconds",
                           "Time that threads did not run, by the reason of the wait, all threads together.",
                           (double)w->ns[i][reason] / 1e9,
                           METRIC_LABELS({"service_name", w->services[i]}, {"reason", w->reasons[reason]}));
    pthread_mutex_unlock(&w->lock);
}
