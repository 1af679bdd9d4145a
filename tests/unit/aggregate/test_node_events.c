/* The kept events: order, limits, copies. */
#include "aggregate/node_events.h"
#include "base/buf.h"
#include "export/node_event_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct seen {
    uint64_t times[NODE_EVENTS_MAX], unix_times[NODE_EVENTS_MAX];
    size_t count;
    struct buf json;
};

static void take(void *context, const struct node_event *event, uint64_t unix_ns)
{
    struct seen *s = context;
    s->unix_times[s->count] = unix_ns;
    s->times[s->count++] = event->time_ns;
    node_event_json_write(event, unix_ns, &s->json);
}

static struct node_events *of_numbers(uint64_t count)
{
    struct node_events *e;
    char text[32];
    assert_int_equal(node_events_new(&e), 0);
    for (uint64_t i = 1; i <= count; i++) {
        const struct node_event_attribute attribute = {"number", text};
        snprintf(text, sizeof(text), "%llu", (unsigned long long)i);
        assert_int_equal(node_events_add(e,
                                         &(struct node_event){.time_ns = i,
                                                              .duration_ns = 7,
                                                              .name = "test.number",
                                                              .text = text,
                                                              .attributes = &attribute,
                                                              .attribute_count = 1},
                                         i + 1000),
                         0);
    }
    return e;
}

static void test_newest_first_and_copied(void **state)
{
    struct seen s = {0};
    struct node_events *e = of_numbers(3);
    (void)state;
    node_events_each(e, 2, 10, take, &s);
    assert_int_equal(s.count, 2);
    assert_int_equal(s.times[0], 3);
    assert_int_equal(s.times[1], 2);
    assert_int_equal(buf_error(&s.json), 0);
    buf_putc(&s.json, '\0');
    assert_string_equal(s.json.data,
                        "{\"time_unix_nano\":1003,\"duration_ns\":7,\"name\":\"test.number\",\"text\":\"3\","
                        "\"attributes\":{\"number\":\"3\"}}"
                        "{\"time_unix_nano\":1002,\"duration_ns\":7,\"name\":\"test.number\",\"text\":\"2\","
                        "\"attributes\":{\"number\":\"2\"}}");
    buf_clear(&s.json);
    node_events_free(e);
}

static void test_times_since_1970_are_as_given(void **state)
{
    struct seen s = {0};
    struct node_events *e = of_numbers(2);
    (void)state;
    node_events_each(e, 0, SIZE_MAX, take, &s);
    assert_true(s.unix_times[0] == 1002 && s.unix_times[1] == 1001);
    buf_clear(&s.json);
    node_events_free(e);
}

static void test_oldest_go_first(void **state)
{
    struct seen s = {0};
    struct node_events *e = of_numbers(NODE_EVENTS_MAX + 5);
    (void)state;
    node_events_each(e, 0, SIZE_MAX, take, &s);
    assert_int_equal(s.count, NODE_EVENTS_MAX);
    assert_int_equal(s.times[0], NODE_EVENTS_MAX + 5);
    assert_int_equal(s.times[NODE_EVENTS_MAX - 1], 6);
    s.count = 0;
    node_events_each(e, 0, 2, take, &s);
    assert_int_equal(s.count, 2);
    buf_clear(&s.json);
    node_events_free(e);
}

static void test_frequent_ones_leave_the_others(void **state)
{
    struct seen s = {0};
    struct node_events *e;
    (void)state;
    assert_int_equal(node_events_new(&e), 0);
    assert_int_equal(node_events_add(e, &(struct node_event){.time_ns = 1, .name = "rare", .text = ""}, 1), 0);
    assert_int_equal(node_events_kept_since(e), 0);
    for (uint64_t i = 2; i < NODE_EVENTS_MAX + 10; i++)
        assert_int_equal(node_events_add(e, &(struct node_event){.time_ns = i, .name = "frequent", .text = ""}, 1), 0);
    assert_int_equal(node_events_add(e, &(struct node_event){.time_ns = 1000, .name = "rare", .text = ""}, 1), 0);
    node_events_each(e, 0, SIZE_MAX, take, &s);
    assert_int_equal(s.count, NODE_EVENTS_MAX);
    assert_int_equal(s.times[0], 1000);
    assert_int_equal(s.times[1], NODE_EVENTS_MAX + 9);
    assert_int_equal(s.times[NODE_EVENTS_MAX - 2], 12);
    assert_int_equal(s.times[NODE_EVENTS_MAX - 1], 1);
    assert_int_equal(node_events_kept_since(e), 12);
    buf_clear(&s.json);
    node_events_free(e);
}

static void test_too_many_attributes_are_refused(void **state)
{
    const struct node_event_attribute attributes[NODE_EVENT_ATTRIBUTES_MAX + 1] = {{"a", "b"}};
    struct node_events *e = of_numbers(0);
    (void)state;
    assert_true(node_events_add(e,
                                &(struct node_event){.name = "",
                                                     .text = "",
                                                     .attributes = attributes,
                                                     .attribute_count = NODE_EVENT_ATTRIBUTES_MAX + 1},
                                1) < 0);
    node_events_free(e);
}

static void test_an_event_is_of_its_name_and_of_its_signal(void **state)
{
    (void)state;
    assert_true(node_event_is_of("drops.packets", "drops.packets"));
    assert_true(node_event_is_of("drops.packets", "drops"));
    assert_false(node_event_is_of("drops.packets", "drop"));
    assert_false(node_event_is_of("drops.packets", "drops.packets.more"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_event_is_of_its_name_and_of_its_signal),
        cmocka_unit_test(test_newest_first_and_copied),
        cmocka_unit_test(test_times_since_1970_are_as_given),
        cmocka_unit_test(test_oldest_go_first),
        cmocka_unit_test(test_frequent_ones_leave_the_others),
        cmocka_unit_test(test_too_many_attributes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
