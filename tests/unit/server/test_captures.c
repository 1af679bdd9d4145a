/* captures.c: which capture an agent gets, and which ones are forgotten. */
#include "server/captures.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static int start(void **state)
{
    return captures_new((struct captures **)state);
}

static int stop(void **state)
{
    captures_free(*state);
    return 0;
}

static int add(struct captures *c, const char *id, const char *host, uint64_t asked_ns)
{
    struct capture capture = {.asked_ns = asked_ns};
    snprintf(capture.id, sizeof(capture.id), "%s", id);
    snprintf(capture.host, sizeof(capture.host), "%s", host);
    return captures_add(c, &capture);
}

/* The id of the next capture of a host; "": none. */
static const char *next(struct captures *c, const char *host)
{
    static struct capture capture;
    return captures_next(c, host, &capture) ? capture.id : "";
}

/* A capture is offered until its agent has it, and the host's next one when it has ended. */
static void test_a_host_gets_one_capture_at_a_time(void **state)
{
    struct captures *c = *state;
    struct capture found;
    assert_true(add(c, "a", "one", 1) == 0 && add(c, "b", "one", 2) == 0 && add(c, "c", "two", 3) == 0);
    assert_string_equal(next(c, "one"), "a");
    assert_string_equal(next(c, "one"), "a");
    assert_string_equal(next(c, "three"), "");
    captures_set_state(c, "a", CAPTURE_RUNNING);
    assert_string_equal(next(c, "one"), "");
    assert_string_equal(next(c, "two"), "c");
    assert_false(captures_find(c, "one", "a", CAPTURE_RUNNING, &found));
    assert_true(captures_find(c, "one", "a", CAPTURE_DONE, &found));
    captures_set_state(c, "a", CAPTURE_DONE);
    assert_false(captures_find(c, "one", "a", CAPTURE_DONE, &found));
    assert_string_equal(next(c, "one"), "b");
}

static void test_an_agent_cannot_end_the_capture_of_another_host(void **state)
{
    struct captures *c = *state;
    struct capture found;
    assert_int_equal(add(c, "a", "one", 1), 0);
    assert_false(captures_find(c, "two", "a", CAPTURE_DONE, &found));
    assert_false(captures_find(c, "one", "b", CAPTURE_DONE, &found));
}

static void test_captures_are_bounded_and_expire(void **state)
{
    struct captures *c = *state;
    struct capture expired;
    char id[20];
    for (uint64_t i = 0; i < CAPTURES_MAX; i++) {
        snprintf(id, sizeof(id), "%d", (int)i);
        assert_int_equal(add(c, id, "one", i), 0);
    }
    assert_int_equal(add(c, "more", "one", 7), -EBUSY);
    captures_set_state(c, "0", CAPTURE_RUNNING);
    assert_false(captures_expire(c, CAPTURES_FORGET_NS - 1, &expired));
    assert_true(captures_expire(c, CAPTURES_FORGET_NS, &expired));
    assert_string_equal(expired.id, "0");
    assert_false(captures_expire(c, CAPTURES_FORGET_NS, &expired));
    assert_int_equal(add(c, "more", "one", CAPTURES_FORGET_NS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_host_gets_one_capture_at_a_time, start, stop),
        cmocka_unit_test_setup_teardown(test_an_agent_cannot_end_the_capture_of_another_host, start, stop),
        cmocka_unit_test_setup_teardown(test_captures_are_bounded_and_expire, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
