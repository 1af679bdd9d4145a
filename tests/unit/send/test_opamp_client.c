/* Reports by OpAMP, with a simulated server and clock: which parts a report has, and what an answer, good or hostile,
 * makes the agent do; captures, whose profiles go to the same server. */
#include "send/opamp_captures.h"

#include "base/protobuf.h"
#include "send/opamp_reply.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../fixture.h"
#include "../lib/otlp/simulation.h"
#include "export_metrics.h"

#define INTERVAL_NS (10 * SECOND)
#define ANSWERS     6
#define CAPTURE     "0123456789abcdef0123456789abcdef"
#define SAMPLES     3 /* of each capture */

struct fixture {
    struct simulation s; /* first member: callbacks cast to the fixture */
    struct opamp_client *client;
    struct export_io io;
    struct config config;
    struct simulated_answer script[ANSWERS];
    struct buf bodies[ANSWERS];
    struct opamp_capture captured; /* and of which time */
    uint64_t from_ns, to_ns;
    bool is_forbidden; /* the agent takes no capture now */
};

static void fill_health(void *context, struct opamp_health *ret)
{
    (void)context;
    *ret = (struct opamp_health){.all = {.is_healthy = true, .status = "running"},
                                 .components = {{.name = OPAMP_COMPONENT_BUDGET, .status = "least", .last_error = "x"}},
                                 .component_count = 1};
}

static int check_capture(void *context, const struct opamp_capture *capture, char *why, size_t why_size)
{
    const struct fixture *f = context;
    (void)capture;
    snprintf(why, why_size, "%s", f->is_forbidden ? "not now" : "");
    return f->is_forbidden ? -EOPNOTSUPP : 0;
}

static int capture(void *context, const struct opamp_capture *capture, uint64_t from_ns, uint64_t to_ns,
                   struct profile **ret)
{
    struct fixture *f = context;
    const struct resource resource = fixture_resource(capture->pid, "server");
    const struct frame frame = fixture_native("work");
    f->captured = *capture;
    f->from_ns = from_ns;
    f->to_ns = to_ns;
    assert_int_equal(profile_new(0, ret), 0);
    for (uint32_t i = 0; i < SAMPLES; i++)
        assert_int_equal(fixture_add(*ret, &resource, capture->pid + i, "main", 1000000, &frame, 1), 0);
    return 0;
}

static void begin_with(struct fixture *f, bool takes_captures)
{
    const struct opamp_source source = {fill_health, check_capture, capture, f};
    *f = (struct fixture){.s = {.now_ns = 1000 * SECOND, .attempts_end_early = true}};
    f->io = (struct export_io){&simulation_transport, simulation_now_ns, simulation_pause, &f->s};
    config_defaults(&f->config);
    simulation_url(&f->s, f->config.opamp_endpoint);
    if (takes_captures)
        simulation_url(&f->s, f->config.otlp_captures_endpoint);
    snprintf(f->config.opamp_headers, sizeof(f->config.opamp_headers), "Authorization=Bearer%%20secret");
    assert_int_equal(opamp_client_new(&f->config, &source, &f->io, &f->client), 0);
    assert_non_null(f->client);
}

static void begin(struct fixture *f)
{
    begin_with(f, false);
}

static void end(struct fixture *f)
{
    opamp_client_free(f->client);
    assert_int_equal(f->s.connections, 0);
    simulation_fini(&f->s);
    for (size_t i = 0; i < array_size(f->bodies); i++)
        buf_clear(&f->bodies[i]);
}

/* The contents of a field of a report; failed: it has no such field. */
static struct cursor part_of(const struct fixture *f, size_t post, uint32_t number)
{
    struct cursor c = cursor_make(f->s.post[post].body, f->s.post[post].size);
    struct protobuf_field field;
    while (protobuf_next_field(&c, &field))
        if (field.number == number)
            return field.inside;
    assert_false(c.failed);
    return (struct cursor){.failed = true};
}

static bool has(const struct fixture *f, size_t post, uint32_t number)
{
    return !part_of(f, post, number).failed;
}

/* The next answer of the script, for the agent with the instance UID of the first report. */
static void answer(struct fixture *f, const uint8_t *uid, uint64_t flags, const uint8_t *new_uid)
{
    struct buf *body = &f->bodies[f->s.script_count], identification = {0};
    protobuf_put_bytes(body, SERVER_TO_AGENT_INSTANCE_UID, uid, OPAMP_UID_BYTES);
    protobuf_put_number(body, SERVER_TO_AGENT_FLAGS, flags);
    if (new_uid) {
        protobuf_put_bytes(&identification, IDENTIFICATION_NEW_UID, new_uid, OPAMP_UID_BYTES);
        protobuf_put_message(body, SERVER_TO_AGENT_IDENTIFICATION, &identification);
    }
    buf_clear(&identification);
    f->s.script = f->script;
    f->script[f->s.script_count++] = (struct simulated_answer){.body = body->data, .body_size = body->size};
}

/* Reports to a server that does not speak OpAMP, to learn the UID. */
static struct cursor learn_uid(struct fixture *f)
{
    assert_int_equal(opamp_client_report(f->client), INTERVAL_NS);
    assert_int_equal(f->s.posts, 1);
    const struct cursor uid = part_of(f, 0, AGENT_TO_SERVER_INSTANCE_UID);
    assert_int_equal(uid.size, OPAMP_UID_BYTES);
    f->s.script_count = 0;
    answer(f, uid.data, 0, NULL); /* of the post before */
    return uid;
}

static double metric_of(const struct fixture *f, const char *name)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    assert_int_equal(metric_set_new(&set), 0);
    opamp_client_metrics(f->client, set);
    return value_of_metric(set, name, NULL);
}

static void test_no_reports_without_an_endpoint(void **state)
{
    struct config config;
    struct opamp_client *client = (void *)&config;
    (void)state;
    config_defaults(&config);
    assert_int_equal(opamp_client_new(&config, &(struct opamp_source){0}, NULL, &client), 0);
    assert_null(client);
    opamp_client_end(NULL);
    opamp_client_free(NULL);
}

/* Everything until the server has it; then the health only, and the configuration when it changes. */
static void test_unchanged_parts_are_reported_once(void **state)
{
    struct fixture f;
    (void)state;
    begin(&f);
    const struct cursor uid = learn_uid(&f);
    answer(&f, uid.data, 0, NULL);
    opamp_client_report(f.client);
    opamp_client_report(f.client);
    opamp_client_report(f.client);
    for (size_t i = 0; i < 4; i++) {
        assert_true(has(&f, i, AGENT_TO_SERVER_HEALTH));
        assert_int_equal(has(&f, i, AGENT_TO_SERVER_DESCRIPTION), i < 2);
        assert_int_equal(has(&f, i, AGENT_TO_SERVER_EFFECTIVE_CONFIG), i < 2);
    }
    f.config.opamp_interval_s = 77;
    opamp_client_set_config(f.client, &f.config);
    opamp_client_report(f.client);
    const struct cursor config = part_of(&f, 4, AGENT_TO_SERVER_EFFECTIVE_CONFIG);
    assert_non_null(memmem(config.data, config.size, "interval: 77 ", 13));
    assert_null(memmem(config.data, config.size, "secret", 6));
    assert_false(has(&f, 4, AGENT_TO_SERVER_DESCRIPTION));
    assert_true(metric_of(&f, "sonde_self_opamp_reports") == 4 && metric_of(&f, "sonde_self_opamp_failures") == 1);
    end(&f);
}

/* A server that asks for everything in each answer gets two reports an interval, not more. */
static void test_endless_demands_are_bounded(void **state)
{
    struct fixture f;
    (void)state;
    begin(&f);
    const struct cursor uid = learn_uid(&f);
    answer(&f, uid.data, SERVER_WANTS_FULL_STATE, NULL);
    for (size_t i = 1; i < 5; i++) {
        assert_int_equal(opamp_client_report(f.client), INTERVAL_NS);
        assert_int_equal(f.s.posts, 1 + 2 * i);
        assert_true(has(&f, 2 * i, AGENT_TO_SERVER_DESCRIPTION));
    }
    end(&f);
}

static void test_new_instance_uid_is_used(void **state)
{
    static const uint8_t other[OPAMP_UID_BYTES] = {1, 2, 3};
    struct fixture f;
    (void)state;
    begin(&f);
    const struct cursor uid = learn_uid(&f);
    answer(&f, uid.data, 0, other);
    answer(&f, other, 0, NULL);
    opamp_client_report(f.client);
    assert_int_equal(f.s.posts, 3);
    assert_memory_equal(part_of(&f, 2, AGENT_TO_SERVER_INSTANCE_UID).data, other, sizeof(other));
    assert_true(has(&f, 2, AGENT_TO_SERVER_DESCRIPTION));
    end(&f);
}

/* Of another agent, cut, no protobuf, an error, busy: the report counts as failed, and the next one has everything. */
static void test_bad_answers_are_failures(void **state)
{
    static const uint8_t other[OPAMP_UID_BYTES] = {9};
    static const char error[] = "\x12\x07\x08\x01\x12\x03no\n";
    struct fixture f;
    (void)state;
    begin(&f);
    const struct cursor uid = learn_uid(&f);
    answer(&f, other, 0, NULL);
    f.script[2] = (struct simulated_answer){.body = f.bodies[0].data, .body_size = OPAMP_UID_BYTES};
    f.script[3] = (struct simulated_answer){.status = 503, .retry_after_ms = UINT32_MAX};
    f.s.script_count = 4;
    for (size_t i = 1; i < 4; i++) {
        assert_int_equal(opamp_client_report(f.client), i < 3 ? INTERVAL_NS : 300 * SECOND);
        assert_int_equal(f.s.posts, i + 1);
        assert_true(has(&f, i, AGENT_TO_SERVER_DESCRIPTION));
    }
    assert_true(metric_of(&f, "sonde_self_opamp_failures") == 4 && metric_of(&f, "sonde_self_opamp_reports") == 0);

    struct opamp_reply reply;
    struct buf body = {0};
    buf_append(&body, f.bodies[0].data, 2 + OPAMP_UID_BYTES);
    buf_append(&body, error, sizeof(error) - 1);
    assert_int_equal(opamp_reply_read(body.data, body.size, uid.data, &reply), 0);
    assert_true(reply.has_error);
    assert_string_equal(reply.error, "no ");
    buf_clear(&body);
    end(&f);
}

/* ---- captures ---- */

/* The next answer of the script asks for a capture, with one more field if it is to be of a later version. */
static void answer_capture(struct fixture *f, const uint8_t *uid, const char *id, uint32_t pid, bool is_later)
{
    struct buf *body = &f->bodies[f->s.script_count], message = {0}, data = {0};
    protobuf_put_bytes(body, SERVER_TO_AGENT_INSTANCE_UID, uid, OPAMP_UID_BYTES);
    protobuf_put_bytes(&data, CAPTURE_ID, id, strlen(id));
    protobuf_put_number(&data, CAPTURE_SECONDS, 2);
    protobuf_put_number(&data, CAPTURE_PID, pid);
    protobuf_put_number(&data, CAPTURE_KIND, CAPTURE_OFF_CPU);
    protobuf_put_number(&data, 77, is_later);
    protobuf_put_bytes(&message, CUSTOM_MESSAGE_CAPABILITY, OPAMP_CAPTURE, strlen(OPAMP_CAPTURE));
    protobuf_put_bytes(&message, CUSTOM_MESSAGE_TYPE, OPAMP_CAPTURE_START, strlen(OPAMP_CAPTURE_START));
    protobuf_put_message(&message, CUSTOM_MESSAGE_DATA, &data);
    protobuf_put_message(body, SERVER_TO_AGENT_CUSTOM_MESSAGE, &message);
    buf_clear(&data);
    buf_clear(&message);
    f->script[f->s.script_count++] = (struct simulated_answer){.body = body->data, .body_size = body->size};
}

struct state {
    uint64_t state, samples; /* 0: the report has none */
    char why[100];
};

static struct state state_in(const struct fixture *f, size_t post)
{
    struct cursor message = part_of(f, post, AGENT_TO_SERVER_CUSTOM_MESSAGE), data = {0};
    struct protobuf_field field;
    struct state state = {0};
    while (protobuf_next_field(&message, &field))
        if (field.number == CUSTOM_MESSAGE_DATA)
            data = field.inside;
    while (protobuf_next_field(&data, &field))
        if (field.number == CAPTURE_STATE_ID)
            assert_memory_equal(field.inside.data, CAPTURE, field.inside.size);
        else if (field.number == CAPTURE_STATE_STATE)
            state.state = field.value;
        else if (field.number == CAPTURE_STATE_SAMPLES)
            state.samples = field.value;
        else if (field.number == CAPTURE_STATE_WHY)
            snprintf(state.why, sizeof(state.why), "%.*s", (int)field.inside.size, (const char *)field.inside.data);
    return state;
}

/* An answer that asks for a capture has its state reported at once, and asking again changes nothing. */
static void test_capture_is_recorded_and_sent(void **state)
{
    struct fixture f;
    (void)state;
    begin_with(&f, true);
    const struct cursor uid = learn_uid(&f);
    answer_capture(&f, uid.data, CAPTURE, 4711, false);
    answer_capture(&f, uid.data, CAPTURE, 4711, false);
    f.script[f.s.script_count++] = (struct simulated_answer){0}; /* to the profile */
    answer(&f, uid.data, 0, NULL);
    const uint64_t begun_ns = f.s.now_ns;
    assert_int_equal(opamp_client_report(f.client), 2 * SECOND + OPAMP_CAPTURE_SETTLE_NS);
    assert_int_equal(f.s.posts, 3);
    assert_true(has(&f, 1, AGENT_TO_SERVER_CUSTOM_CAPABILITIES) && !has(&f, 2, AGENT_TO_SERVER_CUSTOM_CAPABILITIES));
    assert_int_equal(state_in(&f, 1).state, 0);
    assert_int_equal(state_in(&f, 2).state, CAPTURE_RUNNING);
    f.s.now_ns += 2 * SECOND + OPAMP_CAPTURE_SETTLE_NS;
    assert_int_equal(opamp_client_report(f.client), INTERVAL_NS);
    assert_int_equal(f.s.posts, 5);
    assert_non_null(memmem(f.s.post[3].body, f.s.post[3].size, CAPTURE, strlen(CAPTURE)));
    assert_non_null(memmem(f.s.post[3].body, f.s.post[3].size, CAPTURE_ATTRIBUTE, strlen(CAPTURE_ATTRIBUTE)));
    assert_int_equal(state_in(&f, 4).state, CAPTURE_DONE);
    assert_int_equal(state_in(&f, 4).samples, SAMPLES);
    assert_true(f.captured.is_off_cpu && f.captured.pid == 4711 && f.from_ns == begun_ns &&
                f.to_ns == begun_ns + 2 * SECOND);
    opamp_client_report(f.client);
    assert_int_equal(state_in(&f, 5).state, 0);
    end(&f);
}

/* The state says so when the receiver does not take the samples; reports go on. */
static void test_capture_that_is_not_delivered_has_failed(void **state)
{
    struct fixture f;
    (void)state;
    begin_with(&f, true);
    const struct cursor uid = learn_uid(&f);
    answer_capture(&f, uid.data, CAPTURE, 4711, false);
    answer(&f, uid.data, 0, NULL);
    f.script[f.s.script_count++] = (struct simulated_answer){.status = 400}; /* to the profile */
    answer(&f, uid.data, 0, NULL);
    opamp_client_report(f.client);
    f.s.now_ns += 2 * SECOND + OPAMP_CAPTURE_SETTLE_NS;
    opamp_client_report(f.client);
    assert_int_equal(state_in(&f, 4).state, CAPTURE_FAILED);
    assert_int_equal(state_in(&f, 4).samples, 0);
    assert_string_equal(state_in(&f, 4).why, "3 of 3 samples could not be delivered");
    end(&f);
}

static void test_captures_are_refused_with_the_reason(void **state)
{
    static const struct {
        uint32_t pid;
        bool is_later, is_forbidden;
        const char *why;
    } cases[] = {
        {0, false, false, "a process, a container or a service is needed"},
        {4711, true, false, "this version of the agent does not know all that the server asks for"},
        {4711, false, true, "not now"},
    };
    (void)state;
    for (size_t i = 0; i < array_size(cases); i++) {
        struct fixture f;
        begin_with(&f, true);
        f.is_forbidden = cases[i].is_forbidden;
        const struct cursor uid = learn_uid(&f);
        answer_capture(&f, uid.data, CAPTURE, cases[i].pid, cases[i].is_later);
        answer(&f, uid.data, 0, NULL);
        assert_int_equal(opamp_client_report(f.client), INTERVAL_NS);
        assert_int_equal(state_in(&f, 2).state, CAPTURE_REFUSED);
        assert_string_equal(state_in(&f, 2).why, cases[i].why);
        end(&f);
    }
}

/* Without otlp.captures_endpoint, the default, the server can ask for nothing. */
static void test_no_captures_unless_configured(void **state)
{
    struct fixture f;
    (void)state;
    begin(&f);
    const struct cursor uid = learn_uid(&f);
    answer_capture(&f, uid.data, CAPTURE, 4711, false);
    assert_int_equal(opamp_client_report(f.client), INTERVAL_NS);
    assert_int_equal(f.s.posts, 2);
    assert_false(has(&f, 1, AGENT_TO_SERVER_CUSTOM_CAPABILITIES));
    opamp_client_report(f.client);
    assert_false(has(&f, 2, AGENT_TO_SERVER_CUSTOM_MESSAGE));
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_reports_without_an_endpoint),
        cmocka_unit_test(test_unchanged_parts_are_reported_once),
        cmocka_unit_test(test_endless_demands_are_bounded),
        cmocka_unit_test(test_new_instance_uid_is_used),
        cmocka_unit_test(test_bad_answers_are_failures),
        cmocka_unit_test(test_capture_is_recorded_and_sent),
        cmocka_unit_test(test_capture_that_is_not_delivered_has_failed),
        cmocka_unit_test(test_captures_are_refused_with_the_reason),
        cmocka_unit_test(test_no_captures_unless_configured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
