/* Reports of agents by OpAMP: what is read of them, when everything is asked for again, and which reports are stored.
 */
#include "base/protobuf.h"
#include "server/agents.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND 1000000000ull

static const uint8_t uid[OPAMP_UID_BYTES] = {1, 2, 3};

/* ---- messages ---- */

static void put_text(struct buf *out, uint32_t field, const char *text)
{
    protobuf_put_bytes(out, field, text, strlen(text));
}

static void put_attribute(struct buf *description, uint32_t list, const char *key, const char *value)
{
    struct buf pair = {0}, any = {0};
    put_text(&any, 1, value);
    put_text(&pair, 1, key);
    protobuf_put_message(&pair, 2, &any);
    protobuf_put_message(description, list, &pair);
    buf_clear(&pair);
    buf_clear(&any);
}

static void put_component(struct buf *health, const char *name, bool is_healthy, const char *status, const char *error)
{
    struct buf component = {0}, entry = {0};
    protobuf_put_number(&component, HEALTH_IS_HEALTHY, is_healthy);
    put_text(&component, HEALTH_STATUS, status);
    put_text(&component, HEALTH_LAST_ERROR, error);
    put_text(&entry, MAP_KEY, name);
    protobuf_put_message(&entry, MAP_VALUE, &component);
    protobuf_put_message(health, HEALTH_COMPONENTS, &entry);
    buf_clear(&component);
    buf_clear(&entry);
}

static void put_report(struct buf *out, uint64_t sequence, bool is_full, const char *detail)
{
    struct buf health = {0}, description = {0}, capabilities = {0};
    buf_clear(out);
    protobuf_put_bytes(out, AGENT_TO_SERVER_INSTANCE_UID, uid, sizeof(uid));
    protobuf_put_number(out, AGENT_TO_SERVER_SEQUENCE_NUM, sequence);
    put_attribute(&description, DESCRIPTION_IDENTIFYING, "host.name", "node-1");
    put_attribute(&description, DESCRIPTION_OTHERS, "os.version", "6.18.0");
    if (is_full) {
        protobuf_put_message(out, AGENT_TO_SERVER_DESCRIPTION, &description);
        put_text(&capabilities, CUSTOM_CAPABILITIES_NAMES, "org.example.other");
        put_text(&capabilities, CUSTOM_CAPABILITIES_NAMES, OPAMP_CAPTURE);
        protobuf_put_message(out, AGENT_TO_SERVER_CUSTOM_CAPABILITIES, &capabilities);
    }
    protobuf_put_number(&health, HEALTH_IS_HEALTHY, true);
    protobuf_put_fixed64(&health, HEALTH_START_TIME, 5);
    put_text(&health, HEALTH_STATUS, "running");
    put_component(&health, "probes", false, "1 of 2 attached", "drops:\nno");
    put_component(&health, OPAMP_COMPONENT_BUDGET, true, detail, "");
    put_component(&health, OPAMP_COMPONENT_LOSSES, true, "12 since the start", "");
    put_component(&health, "other", false, "", "");
    protobuf_put_message(out, AGENT_TO_SERVER_HEALTH, &health);
    buf_clear(&health);
    buf_clear(&description);
    buf_clear(&capabilities);
}

static void put_state(struct buf *out, const char *capability, const char *id, uint64_t state)
{
    struct buf message = {0}, data = {0};
    put_text(&data, CAPTURE_STATE_ID, id);
    protobuf_put_number(&data, CAPTURE_STATE_STATE, state);
    put_text(&data, CAPTURE_STATE_WHY, "why");
    protobuf_put_number(&data, CAPTURE_STATE_SAMPLES, 12);
    put_text(&message, CUSTOM_MESSAGE_CAPABILITY, capability);
    put_text(&message, CUSTOM_MESSAGE_TYPE, OPAMP_CAPTURE_STATE);
    protobuf_put_message(&message, CUSTOM_MESSAGE_DATA, &data);
    protobuf_put_message(out, AGENT_TO_SERVER_CUSTOM_MESSAGE, &message);
    buf_clear(&message);
    buf_clear(&data);
}

static bool text_is(struct cursor text, const char *other)
{
    return text.size == strlen(other) && memcmp(text.data, other, text.size) == 0;
}

static void test_reports_are_read(void **state)
{
    _cleanup_buf_ struct buf message = {0};
    struct opamp_report report;
    (void)state;
    put_report(&message, 7, true, "least");
    assert_int_equal(opamp_report_read(cursor_make(message.data, message.size), &report), 0);
    assert_int_equal(report.sequence, 7);
    assert_true(text_is(report.host, "node-1") && text_is(report.kernel, "6.18.0") && report.version.size == 0);
    assert_true(report.has_health && report.is_healthy && text_is(report.status, "running"));
    assert_int_equal(report.start_unix_ns, 5);
    assert_true(text_is(report.detail, "least") && report.has_losses && report.losses == 12);
    assert_string_equal(report.problems, "probes: drops: no; other: not healthy");
    for (size_t size = 0; size < message.size; size++) /* cut anywhere: no read past the end */
        (void)opamp_report_read(cursor_make(message.data, size), &report);
    assert_int_equal(opamp_report_read(cursor_make(message.data, message.size - 1), &report), -EBADMSG);
    assert_int_equal(opamp_report_read(cursor_make("", 0), &report), -EBADMSG); /* without an instance UID */
}

/* Custom messages of other capabilities have other contents. */
static void test_states_of_captures_are_read(void **state)
{
    _cleanup_buf_ struct buf message = {0}, other = {0};
    struct opamp_report report;
    (void)state;
    put_report(&message, 7, true, "full");
    put_state(&message, OPAMP_CAPTURE, "abc", CAPTURE_DONE);
    assert_int_equal(opamp_report_read(cursor_make(message.data, message.size), &report), 0);
    assert_true(report.takes_captures && report.has_capture && text_is(report.capture_id, "abc"));
    assert_true(report.capture_state == CAPTURE_DONE && report.capture_samples == 12);
    assert_true(text_is(report.capture_why, "why"));
    put_report(&other, 7, false, "full");
    put_state(&other, "org.example.other", "abc", CAPTURE_DONE);
    assert_int_equal(opamp_report_read(cursor_make(other.data, other.size), &report), 0);
    assert_false(report.takes_captures || report.has_capture);
}

/* ---- agents ---- */

static struct agent_verdict take(struct agents *agents, uint64_t sequence, bool is_full, const char *detail,
                                 uint64_t seconds)
{
    _cleanup_buf_ struct buf message = {0};
    struct opamp_report report;
    struct agent_verdict verdict;
    put_report(&message, sequence, is_full, detail);
    assert_int_equal(opamp_report_read(cursor_make(message.data, message.size), &report), 0);
    assert_int_equal(agents_take(agents, &report, seconds * SECOND, &verdict), 0);
    return verdict;
}

static bool is_verdict(struct agent_verdict v, bool needs_full, bool needs_row)
{
    return v.needs_full == needs_full && v.needs_row == needs_row;
}

/* After a start of the server, a report that was lost, and an hour. */
static void test_everything_is_asked_for_where_parts_are_missing(void **state)
{
    _cleanup_(agents_freep) struct agents *agents = NULL;
    (void)state;
    assert_int_equal(agents_new(10, &agents), 0);
    assert_true(is_verdict(take(agents, 4, false, "full", 1), true, false));
    const struct agent_verdict full = take(agents, 5, true, "full", 2);
    assert_true(is_verdict(full, false, true));
    assert_string_equal(full.facts.host, "node-1");
    assert_string_equal(full.facts.kernel, "6.18.0");
    assert_true(is_verdict(take(agents, 6, false, "full", 3), false, false));
    assert_true(is_verdict(take(agents, 8, false, "full", 4), true, false));
    assert_true(is_verdict(take(agents, 9, false, "full", 4000), true, true));
    agents_forget(agents, uid);
    assert_true(is_verdict(take(agents, 10, false, "full", 4001), true, false));
}

/* A report that says the same as the one before is stored once a minute. */
static void test_news_are_stored_at_once(void **state)
{
    _cleanup_(agents_freep) struct agents *agents = NULL;
    (void)state;
    assert_int_equal(agents_new(10, &agents), 0);
    assert_true(take(agents, 1, true, "full", 10).needs_row);
    assert_false(take(agents, 2, false, "full", 20).needs_row);
    assert_true(take(agents, 3, false, "least", 30).needs_row);
    assert_false(take(agents, 4, false, "least", 89).needs_row);
    assert_true(take(agents, 5, false, "least", 90).needs_row);
}

static bool is_twin(struct agents *agents, uint64_t start_ns, bool is_last)
{
    const struct opamp_report report = {
        .instance_uid = cursor_make(uid, sizeof(uid)), .start_unix_ns = start_ns, .is_last = is_last};
    struct agent_verdict verdict;
    assert_int_equal(agents_take(agents, &report, SECOND, &verdict), 0);
    return verdict.is_twin;
}

/* An agent that starts again, in order or not, is the same; two that report in turn are not. */
static void test_agents_with_the_same_uid_are_noticed(void **state)
{
    _cleanup_(agents_freep) struct agents *agents = NULL;
    (void)state;
    assert_int_equal(agents_new(10, &agents), 0);
    assert_false(is_twin(agents, 100, false) || is_twin(agents, 100, false));
    assert_false(is_twin(agents, 200, false) || is_twin(agents, 200, false)); /* after a crash */
    assert_false(is_twin(agents, 0, false));                                  /* without a health */
    assert_false(is_twin(agents, 300, false));                                /* a second agent */
    assert_true(is_twin(agents, 200, false));
    assert_false(is_twin(agents, 300, false));
    assert_false(is_twin(agents, 300, true));
    assert_false(is_twin(agents, 200, false)); /* the last report ends what was known */
}

static void test_hosts_whose_agents_take_captures_are_known(void **state)
{
    _cleanup_(agents_freep) struct agents *agents = NULL;
    static const uint8_t other[OPAMP_UID_BYTES] = {9};
    const struct opamp_report report = {
        .instance_uid = cursor_make(other, sizeof(other)), .has_description = true, .host = cursor_make("node-2", 6)};
    struct agent_verdict verdict;
    (void)state;
    assert_int_equal(agents_new(10, &agents), 0);
    assert_int_equal(agents_check_captures(agents, ""), -ENOENT);
    (void)take(agents, 1, true, "full", 1);
    assert_int_equal(agents_take(agents, &report, SECOND, &verdict), 0);
    assert_int_equal(agents_check_captures(agents, "node-1"), 0);
    assert_int_equal(agents_check_captures(agents, "node-2"), -EOPNOTSUPP);
    assert_int_equal(agents_check_captures(agents, "node-3"), -ENOENT);
}

static void test_agents_are_bounded(void **state)
{
    _cleanup_(agents_freep) struct agents *agents = NULL;
    struct agent_verdict verdict;
    uint8_t other[OPAMP_UID_BYTES] = {0};
    (void)state;
    assert_int_equal(agents_new(100, &agents), 0);
    struct opamp_report report = {.instance_uid = cursor_make(other, sizeof(other))};
    for (int i = 0; i < 100; i++) {
        other[0] = (uint8_t)(10 + i);
        assert_int_equal(agents_take(agents, &report, (uint64_t)i + 1, &verdict), 0);
    }
    other[0] = 5;
    assert_int_equal(agents_take(agents, &report, AGENTS_FORGET_NS, &verdict), -EBUSY);
    assert_int_equal(agents_take(agents, &report, AGENTS_FORGET_NS + 1, &verdict), 0); /* in place of the first one */
    assert_int_equal(agents_count(agents), 100);
    report.is_last = true;
    assert_int_equal(agents_take(agents, &report, AGENTS_FORGET_NS + 2, &verdict), 0);
    assert_int_equal(agents_count(agents), 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reports_are_read),
        cmocka_unit_test(test_everything_is_asked_for_where_parts_are_missing),
        cmocka_unit_test(test_news_are_stored_at_once),
        cmocka_unit_test(test_agents_are_bounded),
        cmocka_unit_test(test_states_of_captures_are_read),
        cmocka_unit_test(test_hosts_whose_agents_take_captures_are_known),
        cmocka_unit_test(test_agents_with_the_same_uid_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
