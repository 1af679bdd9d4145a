/* The order of handling: an event loop handles requests that it read one after the other. */
#include "diagnose/flight/read_burst.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_hand_overs_come_in_the_order_of_reads(void **state)
{
    struct read_burst b = {0};
    (void)state;
    read_burst_read(&b, 1);
    read_burst_read(&b, 2);
    read_burst_read(&b, 2); /* its body */
    read_burst_read(&b, 3);
    assert_int_equal(read_burst_hand_over(&b, 3), 1);
    assert_int_equal(read_burst_hand_over(&b, 3), 2);
    assert_int_equal(read_burst_hand_over(&b, 3), 3);
    assert_int_equal(read_burst_hand_over(&b, 3), 0);
}

static void test_answers_count(void **state)
{
    struct read_burst b = {0};
    (void)state;
    read_burst_read(&b, 1);
    read_burst_read(&b, 2);
    read_burst_read(&b, 3);
    read_burst_answer(&b, 1, 3);
    read_burst_answer(&b, 1, 3); /* its second part */
    assert_int_equal(read_burst_hand_over(&b, 3), 2);
    read_burst_answer(&b, 3, 3);
}

/* A handler that waits for something else neither answers nor hands on: then the others cannot be distinguished. */
static void test_too_few_steps(void **state)
{
    struct read_burst b = {0};
    (void)state;
    read_burst_read(&b, 1);
    read_burst_read(&b, 2);
    read_burst_read(&b, 3);
    assert_int_equal(read_burst_hand_over(&b, 2), 0);
    assert_int_equal(read_burst_hand_over(&b, 2), 0);
}

static void test_an_answer_out_of_order(void **state)
{
    struct read_burst b = {0};
    (void)state;
    read_burst_read(&b, 1);
    read_burst_read(&b, 2);
    read_burst_answer(&b, 2, 2);
    assert_int_equal(read_burst_hand_over(&b, 2), 0);
}

static void test_one_request_is_no_burst(void **state)
{
    struct read_burst b = {0};
    (void)state;
    read_burst_read(&b, 1);
    assert_int_equal(read_burst_hand_over(&b, 1), 0);
}

static void test_the_next_burst(void **state)
{
    struct read_burst b = {0};
    (void)state;
    read_burst_read(&b, 1);
    read_burst_read(&b, 2);
    assert_int_equal(read_burst_hand_over(&b, 2), 1);
    read_burst_read(&b, 3); /* the loop goes round */
    read_burst_read(&b, 4);
    assert_int_equal(read_burst_hand_over(&b, 2), 3);
    read_burst_end(&b); /* it slept */
    read_burst_read(&b, 5);
    assert_int_equal(read_burst_hand_over(&b, 1), 0);
}

static void test_more_than_fit(void **state)
{
    struct read_burst b = {0};
    (void)state;
    for (uint64_t i = 1; i <= 2 * READ_BURST_MAX; i++)
        read_burst_read(&b, i);
    assert_int_equal(read_burst_hand_over(&b, 2 * READ_BURST_MAX), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hand_overs_come_in_the_order_of_reads),
        cmocka_unit_test(test_answers_count),
        cmocka_unit_test(test_too_few_steps),
        cmocka_unit_test(test_an_answer_out_of_order),
        cmocka_unit_test(test_one_request_is_no_burst),
        cmocka_unit_test(test_the_next_burst),
        cmocka_unit_test(test_more_than_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
