/* Which send failures are logged. */
#include "send/send_warnings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SECOND 1000000000ull

static void test_lasting_failure_is_logged_every_five_minutes(void **state)
{
    (void)state;
    struct send_warnings w = {0};
    unsigned logged = 0;
    for (uint64_t s = 1; s <= 901; s++)
        logged += send_warnings_failure(&w, s % 2 ? "away" : "busy", s * SECOND);
    assert_int_equal(logged, 4); /* at 1, 301, 601 and 901 s */
}

static void test_rejections_are_logged_every_five_minutes(void **state)
{
    (void)state;
    struct send_warnings w = {0};
    unsigned logged = 0;
    assert_true(send_warnings_failure(&w, "away", SECOND)); /* does not hide them */
    for (uint64_t s = 1; s <= 901; s++)
        logged += send_warnings_rejection(&w, s * SECOND);
    assert_int_equal(logged, 4);
}

static void test_a_recovery_is_logged_once(void **state)
{
    (void)state;
    struct send_warnings w = {0};
    assert_false(send_warnings_accepted(&w));
    assert_true(send_warnings_failure(&w, "away", SECOND));
    assert_true(send_warnings_accepted(&w));
    assert_false(send_warnings_accepted(&w));
    assert_false(send_warnings_failure(&w, "away", 2 * SECOND)); /* of a receiver that fails now and then */
    assert_false(send_warnings_accepted(&w));
}

/* Every refusal is also reported as a failure, first. */
static bool refuse(struct send_warnings *w, const char *why, uint64_t now_ns, bool *ret_as_failure)
{
    *ret_as_failure = send_warnings_failure(w, why, now_ns);
    return send_warnings_refusal(w, why, now_ns);
}

static void test_transient_failure_does_not_hide_a_refusal(void **state)
{
    (void)state;
    struct send_warnings w = {0};
    bool as_failure;
    assert_true(send_warnings_failure(&w, "HTTP status 503", SECOND));
    assert_true(refuse(&w, "HTTP status 400", 2 * SECOND, &as_failure));
    assert_false(as_failure);
    for (uint64_t s = 3; s < 301; s++) {
        assert_false(refuse(&w, "HTTP status 400", s * SECOND, &as_failure));
        assert_false(as_failure);
    }
    assert_false(refuse(&w, "HTTP status 400", 301 * SECOND, &as_failure)); /* logged as a failure */
    assert_true(as_failure);
}

static void test_a_refusal_is_logged_once(void **state)
{
    (void)state;
    struct send_warnings w = {0};
    bool as_failure;
    assert_false(refuse(&w, "HTTP status 404", SECOND, &as_failure));
    assert_true(as_failure);
    assert_false(refuse(&w, "HTTP status 404", 2 * SECOND, &as_failure));
    assert_false(as_failure);
    assert_true(refuse(&w, "HTTP status 500", 3 * SECOND, &as_failure)); /* another reason */
    assert_false(refuse(&w, "HTTP status 501", 4 * SECOND, &as_failure));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lasting_failure_is_logged_every_five_minutes),
        cmocka_unit_test(test_rejections_are_logged_every_five_minutes),
        cmocka_unit_test(test_a_recovery_is_logged_once),
        cmocka_unit_test(test_transient_failure_does_not_hide_a_refusal),
        cmocka_unit_test(test_a_refusal_is_logged_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
