/* agent_coverage.c: the observed part of an interval, and the reasons for the rest. The clock is the test's. */
#include "agent/agent_private.h"
#include "aggregate/cpu_users.h"
#include "aggregate/node_events.h"
#include "aggregate/opaque_ports.h"
#include "aggregate/requests.h"
#include "base/buf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define S     1000000000ull
#define START (10000 * S)

uint64_t __wrap_clock_monotonic_ns(void);

static uint64_t now_ns;

uint64_t __wrap_clock_monotonic_ns(void)
{
    return now_ns;
}

/* An agent that has recorded requests since START. */
static int begin(void **state)
{
    static struct agent agent;
    agent = (struct agent){.start_ns = START};
    config_defaults(&agent.config);
    assert_int_equal(requests_new(1 << 20, &agent.requests), 0);
    assert_int_equal(node_events_new(&agent.events), 0);
    assert_int_equal(opaque_ports_new(&agent.opaque_ports), 0);
    assert_int_equal(cpu_users_new(&agent.cpu_users), 0);
    requests_observe(agent.requests, true, START);
    *state = &agent;
    return 0;
}

static int end(void **state)
{
    struct agent *agent = *state;
    requests_free(agent->requests);
    node_events_free(agent->events);
    opaque_ports_free(agent->opaque_ports);
    cpu_users_free(agent->cpu_users);
    return 0;
}

static struct coverage cover(struct agent *agent, enum coverage_subject subject, uint64_t at_ns, uint64_t seconds)
{
    struct coverage c;
    now_ns = at_ns;
    agent_coverage(agent, subject, seconds, &c);
    return c;
}

static void assert_gap(const struct coverage *c, size_t i, enum coverage_reason reason, uint64_t seconds,
                       const char *text)
{
    assert_true(i < c->gap_count);
    assert_int_equal(c->gaps[i].reason, reason);
    assert_int_equal(c->gaps[i].duration_ns, seconds * S);
    if (!strstr(c->gaps[i].text, text))
        fail_msg("\"%s\" is not in \"%s\"", text, c->gaps[i].text);
}

static void assert_nothing(const struct coverage *c, enum coverage_subject subject, const char *expected)
{
    _cleanup_buf_ struct buf text = {0};
    coverage_put_nothing(c, subject, &text);
    assert_string_equal(text.data, expected);
}

static void test_all_was_observed(void **state)
{
    const struct coverage c = cover(*state, COVERAGE_REQUESTS, START + 100 * S, 60);
    assert_int_equal(c.observed_ns, 60 * S);
    assert_int_equal(c.gap_count, 0);
    assert_nothing(&c, COVERAGE_REQUESTS,
                   "No HTTP request was seen in the last 60.0 s, and all of that time was observed.");
}

static void test_agent_started_a_moment_ago(void **state)
{
    const struct coverage c = cover(*state, COVERAGE_REQUESTS, START + 10 * S, 60);
    assert_int_equal(c.observed_ns, 10 * S);
    assert_int_equal(c.gap_count, 1);
    assert_gap(&c, 0, COVERAGE_BEFORE_START, 50, "running for only 10.0 s");
    assert_nothing(&c, COVERAGE_REQUESTS,
                   "No HTTP request was seen in the last 60.0 s; only 10.0 s of it were observed.");
    const struct coverage at_once = cover(*state, COVERAGE_REQUESTS, START, 60);
    assert_int_equal(at_once.observed_ns, 0);
    assert_gap(&at_once, 0, COVERAGE_BEFORE_START, 60, "");
}

static void test_requests_were_shed_for_a_part(void **state)
{
    struct agent *agent = *state;
    requests_observe(agent->requests, false, START + 100 * S);
    const struct coverage lasts = cover(agent, COVERAGE_ROUTES, START + 120 * S, 60);
    assert_int_equal(lasts.observed_ns, 40 * S);
    assert_int_equal(lasts.gap_count, 1);
    assert_gap(&lasts, 0, COVERAGE_BUDGET, 20, "budget.one_cpu allows; this still lasts");
    requests_observe(agent->requests, true, START + 120 * S);
    const struct coverage over = cover(agent, COVERAGE_ROUTES, START + 130 * S, 60);
    assert_int_equal(over.observed_ns, 40 * S);
    assert_gap(&over, 0, COVERAGE_BUDGET, 20, "budget.one_cpu allows.");
    const struct coverage later = cover(agent, COVERAGE_ROUTES, START + 200 * S, 60);
    assert_int_equal(later.gap_count, 0);
}

static void test_requests_were_shed_all_the_time(void **state)
{
    struct agent *agent = *state;
    requests_observe(agent->requests, false, START + 10 * S);
    const struct coverage c = cover(agent, COVERAGE_ABNORMAL, START + 100 * S, 60);
    assert_int_equal(c.observed_ns, 0);
    assert_gap(&c, 0, COVERAGE_BUDGET, 60, "this still lasts");
    assert_nothing(&c, COVERAGE_ABNORMAL,
                   "Nothing was observed in the last 60.0 s: whether there was an abnormal request is not known.");
}

/* Longer ago than is kept, then before the start, then shed: no instant counts twice. */
static void test_gaps_add_up_to_the_interval(void **state)
{
    struct agent *agent = *state;
    requests_observe(agent->requests, false, START + 50 * S);
    const struct coverage c = cover(agent, COVERAGE_REQUESTS, START + 200 * S, 1000);
    assert_int_equal(c.gap_count, 3);
    assert_gap(&c, 0, COVERAGE_EXPIRED, 700, "Requests are kept for 300 s.");
    assert_gap(&c, 1, COVERAGE_BEFORE_START, 100, "");
    assert_gap(&c, 2, COVERAGE_BUDGET, 150, "");
    assert_int_equal(c.observed_ns, 50 * S);
}

static void test_disabled_requests_name_their_setting(void **state)
{
    struct agent *agent = *state;
    config_put_bool(&agent->config, "requests.enabled", false);
    const struct coverage c = cover(agent, COVERAGE_REQUESTS, START + 100 * S, 60);
    assert_int_equal(c.observed_ns, 0);
    assert_int_equal(c.gap_count, 1);
    assert_gap(&c, 0, COVERAGE_DISABLED, 60, "requests.enabled is false");
}

static void test_refused_methods_are_named(void **state)
{
    struct agent *agent = *state;
    struct attach_entry *entry = attach_report_add(&agent->report, "requests");
    entry->signal = "request";
    attach_entry_refused(entry, "socket tracepoints", EPERM);
    const struct coverage c = cover(agent, COVERAGE_REQUESTS, START + 100 * S, 60);
    assert_int_equal(c.observed_ns, 0);
    assert_gap(&c, 0, COVERAGE_NOT_ATTACHED, 60, "socket tracepoints: Operation not permitted");
    entry->attached = true;
    assert_int_equal(cover(agent, COVERAGE_REQUESTS, START + 100 * S, 60).gap_count, 0);
}

static void test_opaque_ports_are_listed(void **state)
{
    struct agent *agent = *state;
    opaque_ports_add(
        agent->opaque_ports,
        &(struct opaque_traffic){
            .time_ns = START + 90 * S, .port = 443, .protocol = OPAQUE_TLS, .process = "nginx", .bytes = 100});
    const struct coverage c = cover(agent, COVERAGE_REQUESTS, START + 100 * S, 60);
    assert_int_equal(c.port_count, 1);
    assert_int_equal(c.ports[0].port, 443);
}

static void test_events_need_a_signal_that_emits_them(void **state)
{
    struct agent *agent = *state;
    config_enable_signals(&agent->config, false);
    struct coverage c = cover(agent, COVERAGE_EVENTS, START + 100 * S, 60);
    assert_int_equal(c.observed_ns, 0);
    assert_true(c.gap_count >= 2);
    for (size_t i = 0; i < c.gap_count; i++)
        assert_gap(&c, i, COVERAGE_DISABLED, 60, ".enabled is false");
    const size_t disabled = c.gap_count;
    config_put_bool(&agent->config, "runqueue.enabled", true);
    c = cover(agent, COVERAGE_EVENTS, START + 100 * S, 60);
    assert_int_equal(c.observed_ns, 60 * S);
    assert_int_equal(c.gap_count, disabled - 1);
    assert_nothing(&c, COVERAGE_EVENTS, "No event was seen in the last 60.0 s, and all of that time was observed.");
    c = cover(agent, COVERAGE_EVENTS, START + 10 * S, 60);
    assert_int_equal(c.observed_ns, 10 * S);
}

static bool has_gap(const struct coverage *c, enum coverage_reason reason, const char *text)
{
    for (size_t i = 0; i < c->gap_count; i++)
        if (c->gaps[i].reason == reason && strstr(c->gaps[i].text, text))
            return true;
    return false;
}

/* Slow system calls are read from the flight recorder: what disables or refuses that is named. */
static void test_events_of_a_signal_that_serves_others(void **state)
{
    struct agent *agent = *state;
    config_put_bool(&agent->config, "slow_calls.enabled", true);
    struct coverage c = cover(agent, COVERAGE_EVENTS, START + 100 * S, 60);
    assert_false(has_gap(&c, COVERAGE_DISABLED, "slow_calls"));
    config_put_bool(&agent->config, "recorder.enabled", false);
    c = cover(agent, COVERAGE_EVENTS, START + 100 * S, 60);
    assert_true(has_gap(&c, COVERAGE_DISABLED, "There are no events of slow_calls: recorder.enabled is false."));
    config_put_bool(&agent->config, "recorder.enabled", true);
    struct attach_entry *entry = attach_report_add(&agent->report, "flight recorder");
    entry->signal = "recorder";
    attach_entry_refused(entry, "tracepoints", EPERM);
    c = cover(agent, COVERAGE_EVENTS, START + 100 * S, 60);
    assert_true(
        has_gap(&c, COVERAGE_NOT_ATTACHED, "There are no events of slow_calls: tracepoints: Operation not permitted."));
}

static void test_overwritten_events_are_a_gap(void **state)
{
    struct agent *agent = *state;
    config_put_bool(&agent->config, "runqueue.enabled", true);
    for (uint64_t i = 0; i <= NODE_EVENTS_MAX; i++)
        assert_int_equal(
            node_events_add(agent->events,
                            &(struct node_event){.time_ns = START + (70 * S) + i, .name = "a.b", .text = ""}, 1),
            0);
    const struct coverage c = cover(agent, COVERAGE_EVENTS, START + 100 * S + 1, 60);
    assert_gap(&c, c.gap_count - 1, COVERAGE_EXPIRED, 30, "Only 256 events are kept.");
    assert_int_equal(c.observed_ns, 30 * S);
}

static void test_calls_need_the_flight_recorder(void **state)
{
    struct agent *agent = *state;
    const struct coverage seen = cover(agent, COVERAGE_CALLS, START + 100 * S, 60);
    assert_int_equal(seen.observed_ns, 60 * S);
    config_put_bool(&agent->config, "recorder.enabled", false);
    const struct coverage none = cover(agent, COVERAGE_CALLS, START + 100 * S, 60);
    assert_gap(&none, 0, COVERAGE_DISABLED, 60, "recorder.enabled is false");
    assert_nothing(&none, COVERAGE_CALLS,
                   "Nothing was observed in the last 60.0 s: whether there was an outgoing call is not known.");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(test_all_was_observed),
        CASE(test_agent_started_a_moment_ago),
        CASE(test_requests_were_shed_for_a_part),
        CASE(test_requests_were_shed_all_the_time),
        CASE(test_gaps_add_up_to_the_interval),
        CASE(test_disabled_requests_name_their_setting),
        CASE(test_refused_methods_are_named),
        CASE(test_opaque_ports_are_listed),
        CASE(test_events_need_a_signal_that_emits_them),
        CASE(test_events_of_a_signal_that_serves_others),
        CASE(test_overwritten_events_are_a_gap),
        CASE(test_calls_need_the_flight_recorder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
