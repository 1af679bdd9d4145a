/* What reports by OpAMP have: the health of the agent and of its parts, which docs/server.md describes, and its
 * configuration. */
#include "agent/agent_private.h"
#include "aggregate/windows.h"
#include "base/clock.h"
#include "base/turn_time.h"
#include "send/opamp_client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* The rest of a list that is too long is cut. */
__attribute__((format(printf, 4, 5))) static void append_error(struct opamp_component *c, size_t *used,
                                                               const char *separator, const char *format, ...)
{
    va_list arguments;
    if (*used)
        *used += (size_t)snprintf(c->last_error + *used, sizeof(c->last_error) - *used, "%s", separator);
    if (*used >= sizeof(c->last_error))
        return;
    va_start(arguments, format);
    *used += (size_t)vsnprintf(c->last_error + *used, sizeof(c->last_error) - *used, format, arguments);
    va_end(arguments);
}

static void describe_probes(const struct attach_report *report, struct opamp_component *ret)
{
    size_t attached = 0, used = 0;
    for (size_t i = 0; i < report->count; i++) {
        const struct attach_entry *e = &report->entries[i];
        attached += e->attached;
        if (!e->attached && used < sizeof(ret->last_error))
            append_error(ret, &used, "; ", "%s: %s", e->probe, e->fallback_reason);
    }
    ret->name = OPAMP_COMPONENT_PROBES;
    ret->is_healthy = attached == report->count;
    snprintf(ret->status, sizeof(ret->status), "%zu of %zu attached", attached, report->count);
}

static void describe_budget(const struct budget *b, const char *reduced, struct opamp_component *ret)
{
    size_t used = 0;
    ret->name = OPAMP_COMPONENT_BUDGET;
    ret->is_healthy = b->detail == SOURCE_DETAIL_FULL && !b->over_memory;
    snprintf(ret->status, sizeof(ret->status), "%s", budget_detail_name(b->detail));
    if (b->detail != SOURCE_DETAIL_FULL)
        append_error(ret, &used, "; ", "budget.one_cpu: reduced: %s", reduced);
    if (b->over_memory && used < sizeof(ret->last_error))
        append_error(ret, &used, "; ", "budget.memory: %.1f MiB in use, %.1f MiB allowed",
                     (double)b->memory_bytes / (1 << 20), (double)b->memory_bytes_allowed / (1 << 20));
}

/* Some losses are usual, such as functions without names: they make no agent unhealthy. */
static void describe_losses(const struct losses *losses, struct opamp_component *ret)
{
    uint64_t sum = 0;
    for (int i = 0; i < LOSS_COUNT; i++)
        sum += losses->count[i];
    ret->name = OPAMP_COMPONENT_LOSSES;
    ret->is_healthy = true;
    snprintf(ret->status, sizeof(ret->status), "%" PRIu64 " since the start", sum);
}

static void describe_all(uint64_t idle_ns, struct opamp_component *ret)
{
    ret->is_healthy = idle_ns < TURN_HUNG_NS;
    snprintf(ret->status, sizeof(ret->status), "%s", ret->is_healthy ? "running" : "stalled");
    if (!ret->is_healthy)
        snprintf(ret->last_error, sizeof(ret->last_error), "the main thread has done nothing for %" PRIu64 " s",
                 idle_ns / 1000000000);
}

void agent_health(void *agent, struct opamp_health *ret)
{
    struct agent *a = agent;
    *ret = (struct opamp_health){
        .component_count = OPAMP_COMPONENTS_MAX, .start_unix_ns = a->start_unix_ns, .status_unix_ns = clock_unix_ns()};
    describe_all(agent_idle_ns(a), &ret->all);
    pthread_mutex_lock(&a->lock);
    describe_probes(&a->report, &ret->components[0]);
    describe_budget(&a->budget, a->reduced, &ret->components[1]);
    describe_losses(&a->stats.losses, &ret->components[2]);
    pthread_mutex_unlock(&a->lock);
}

void agent_set_reported_config(struct agent *a, const struct config *config)
{
    if (a->opamp)
        opamp_client_set_config(a->opamp, config);
}

static const struct sample_type *type_of(const struct opamp_capture *capture)
{
    return capture->is_off_cpu ? &sample_type_off_cpu : &sample_type_cpu;
}

int agent_check_capture(void *agent, const struct opamp_capture *capture, char *why, size_t why_size)
{
    struct agent *a = agent;
    pthread_mutex_lock(&a->lock);
    const enum source_detail detail = a->budget.detail;
    pthread_mutex_unlock(&a->lock);
    if (!windows_find(a->windows, type_of(capture)))
        snprintf(why, why_size, "%s.enabled is false on this node", capture->is_off_cpu ? "off_cpu" : "profile");
    else if (detail != SOURCE_DETAIL_FULL)
        snprintf(why, why_size, "the agent has reduced its detail to '%s' to keep to budget.one_cpu",
                 budget_detail_name(detail));
    else
        return 0;
    return -EOPNOTSUPP;
}

int agent_capture(void *agent, const struct opamp_capture *capture, uint64_t from_ns, uint64_t to_ns,
                  struct profile **ret)
{
    const struct profile_filter filter = {.pid = capture->pid,
                                          .container_id = capture->container[0] ? capture->container : NULL,
                                          .service_name = capture->service[0] ? capture->service : NULL,
                                          .type = type_of(capture)};
    return agent_region(agent, from_ns, to_ns, &filter, ret);
}
