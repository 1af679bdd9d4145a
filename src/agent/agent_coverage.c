/* What the agent observed of an interval, and why not the rest: goes with its answers (model/coverage.h). */
#include "agent/agent_private.h"

#include "agent/overload.h"
#include "aggregate/cpu_users.h"
#include "aggregate/node_events.h"
#include "aggregate/opaque_ports.h"
#include "aggregate/requests.h"
#include "base/clock.h"
#include "base/units.h"
#include "signals/signals.h"

#include <string.h>
#include <unistd.h>

/* Why no method of this signal attached; NULL: one did. */
static const struct attach_entry *find_refused(const struct attach_report *report, const char *signal)
{
    const struct attach_entry *refused = NULL;
    for (size_t i = 0; i < report->count; i++) {
        const struct attach_entry *e = &report->entries[i];
        if (!e->signal || strcmp(e->signal, signal) != 0)
            continue;
        if (e->attached)
            return NULL;
        refused = refused ?: e;
    }
    return refused;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The part before the agent's start. Returns when the rest begins. */
static uint64_t add_start(struct coverage *c, uint64_t from_ns, uint64_t start_ns, uint64_t now_ns)
{
    char uptime[32];
    if (from_ns < start_ns)
        coverage_add_gap(c, COVERAGE_BEFORE_START, start_ns - from_ns, "The agent has been running for only %s.",
                         units_format_duration(now_ns - start_ns, uptime, sizeof(uptime)));
    return later(from_ns, start_ns);
}

static void add_budget(struct coverage *c, uint64_t shed_ns, bool lasts)
{
    char duration[32];
    units_format_duration(shed_ns, duration, sizeof(duration));
    coverage_add_gap(
        c, COVERAGE_BUDGET, shed_ns,
        "For %s requests were not recorded, because the agent used more CPU time than budget.one_cpu allows%s. "
        "A higher budget.one_cpu avoids that.",
        duration, lasts ? "; this still lasts" : "");
}

static void describe_overload(struct agent *a, uint64_t since_ns, uint64_t now_ns, struct coverage *ret)
{
    struct request_totals totals;
    struct cpu_use use = {.cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN)};
    requests_totals(a->requests, since_ns, &totals);
    use.user_count =
        cpu_users_list(a->cpu_users, since_ns, now_ns, use.users, OVERLOAD_USERS_MAX, &use.all_ns, &use.span_ns);
    overload_describe(&totals, &use, ret->overload, sizeof(ret->overload));
}

static void cover_requests(struct agent *a, uint64_t since_ns, uint64_t now_ns, struct coverage *ret)
{
    const struct attach_entry *refused = find_refused(&a->report, "request");
    const uint64_t kept_ns = REQUESTS_KEPT_SECONDS * 1000000000ull;
    char kept[32];
    bool is_observed;
    if (!config_bool(&a->config, "requests.enabled")) {
        coverage_add_gap(ret, COVERAGE_DISABLED, ret->asked_ns,
                         "Requests are not observed: requests.enabled is false.");
        return;
    }
    if (refused) {
        coverage_add_gap(ret, COVERAGE_NOT_ATTACHED, ret->asked_ns,
                         "Requests cannot be observed: %s. See sonde doctor.", refused->fallback_reason);
        return;
    }
    uint64_t from_ns = since_ns;
    if (ret->asked_ns > kept_ns) {
        coverage_add_gap(ret, COVERAGE_EXPIRED, ret->asked_ns - kept_ns, "Requests are kept for %s.",
                         units_format_duration(kept_ns, kept, sizeof(kept)));
        from_ns = later(from_ns, now_ns > kept_ns ? now_ns - kept_ns : 0);
    }
    uint64_t first_ns = a->start_ns;
    ret->observed_ns = requests_observed(a->requests, from_ns, now_ns, &first_ns, &is_observed);
    from_ns = add_start(ret, from_ns, first_ns ?: now_ns, now_ns);
    add_budget(ret, now_ns - from_ns - ret->observed_ns, !is_observed);
    ret->port_count =
        opaque_ports_list(a->opaque_ports, since_ns, now_ns, ret->ports, COVERAGE_PORTS_MAX, &ret->ports_omitted);
    describe_overload(a, since_ns, now_ns, ret);
}

/* The signal whose setting disables this one: itself, or one that it serves; NULL: it is enabled. */
static const struct signal *find_disabled(const struct config *config, const struct signal *signal)
{
    for (const struct signal *const *served = signal->serves; served && *served; served++)
        if (!config_enables(config, *served))
            return *served;
    return config_enables(config, signal) ? NULL : signal;
}

/* As find_refused, of the signal or of one that it serves. */
static const struct attach_entry *find_refused_of(const struct attach_report *report, const struct signal *signal)
{
    const struct attach_entry *refused = find_refused(report, signal->name);
    for (const struct signal *const *served = signal->serves; !refused && served && *served; served++)
        refused = find_refused(report, (*served)->name);
    return refused;
}

/* A gap for each signal that would emit events. Returns whether one of them does. */
static bool cover_event_signals(const struct agent *a, struct coverage *ret)
{
    bool some = false;
    for (size_t i = 0; all_signals[i]; i++) {
        const struct signal *signal = all_signals[i];
        if (!(signal->flags & SIGNAL_EVENTS))
            continue;
        const struct signal *disabled = find_disabled(&a->config, signal);
        const struct attach_entry *refused = find_refused_of(&a->report, signal);
        if (disabled)
            coverage_add_gap(ret, COVERAGE_DISABLED, ret->asked_ns, "There are no events of %s: %s is false.",
                             signal->name, disabled->settings[0].key);
        else if (refused)
            coverage_add_gap(ret, COVERAGE_NOT_ATTACHED, ret->asked_ns,
                             "There are no events of %s: %s. See sonde doctor.", signal->name,
                             refused->fallback_reason);
        else
            some = true;
    }
    return some;
}

static void cover_events(struct agent *a, uint64_t since_ns, uint64_t now_ns, struct coverage *ret)
{
    if (!cover_event_signals(a, ret))
        return;
    const uint64_t kept_ns = node_events_kept_since(a->events);
    uint64_t from_ns = since_ns;
    if (kept_ns > from_ns) {
        coverage_add_gap(ret, COVERAGE_EXPIRED, kept_ns - from_ns, "Only %u events are kept.", NODE_EVENTS_MAX);
        from_ns = kept_ns;
    }
    ret->observed_ns = now_ns - add_start(ret, from_ns, a->start_ns, now_ns);
}

/* As for requests. The programs read calls for the flight recorder. */
static void cover_calls(struct agent *a, uint64_t since_ns, uint64_t now_ns, struct coverage *ret)
{
    if (config_bool(&a->config, "recorder.enabled"))
        cover_requests(a, since_ns, now_ns, ret);
    else
        coverage_add_gap(ret, COVERAGE_DISABLED, ret->asked_ns,
                         "Calls of other services are not observed: recorder.enabled is false.");
}

void agent_coverage(void *agent, enum coverage_subject subject, uint64_t seconds, struct coverage *ret)
{
    struct agent *a = agent;
    const uint64_t now_ns = clock_monotonic_ns(), asked_ns = seconds * 1000000000ull;
    const uint64_t since_ns = now_ns > asked_ns ? now_ns - asked_ns : 0;
    *ret = (struct coverage){.asked_ns = asked_ns};
    if (subject == COVERAGE_EVENTS)
        cover_events(a, since_ns, now_ns, ret);
    else if (subject == COVERAGE_CALLS)
        cover_calls(a, since_ns, now_ns, ret);
    else
        cover_requests(a, since_ns, now_ns, ret);
}
