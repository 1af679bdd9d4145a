/* What is left of a window without the control frames of HTTP/2. */
#include "diagnose/flight/control_frames.h"

#include "flight_trace.h"

/* A receive after which TCP's copied_seq is `seq`, or an arrival after which its rcv_nxt is. */
static void put_with_seq(uint64_t us, unsigned kind, uint32_t tid, uint32_t seq)
{
    put(us, kind, RECORDER_TCP, RECORDER_NO_SYSCALL, tid, R, (uint64_t)seq << 32 | 17);
}

/* `expected`: the times of the records that are left, in microseconds. */
static void expect_left(const char *expected)
{
    const struct flight_window window = {.records = records, .count = count};
    struct flight_window left;
    struct recorder_record *memory;
    _cleanup_buf_ struct buf text = {0};
    assert_int_equal(control_frames_remove(&window, &left, &memory), 0);
    for (size_t i = 0; i < left.count; i++)
        buf_printf(&text, "%llu ", (unsigned long long)(left.records[i].time_ns - BASE_NS) / 1000);
    assert_string_equal(text.data ? text.data : "", expected);
    free(memory);
}

static void test_operation_and_its_arrival(void **state)
{
    (void)state;
    put_with_seq(10, RECORDER_READY, CLIENT, 100);
    put_with_seq(20, RECORDER_RECEIVE, 11, 100);
    put_with_seq(30, RECORDER_READY, CLIENT, 117);
    put_with_seq(40, RECORDER_RECEIVE, 11, 117);
    put_control(40, 11, R);
    put_send(50, 12, R);
    put_control(50, 12, R);
    put_send(60, 12, R);
    expect_left("10 20 60 ");
}

/* The request's first bytes have arrived before the thread reads the frames ahead of them. */
static void test_arrival_of_later_bytes(void **state)
{
    (void)state;
    put_with_seq(10, RECORDER_READY, CLIENT, 0xfffffff0);
    put_with_seq(20, RECORDER_READY, CLIENT, 200);
    put_with_seq(30, RECORDER_RECEIVE, 11, 1);
    put_control(30, 11, R);
    put_with_seq(40, RECORDER_RECEIVE, 11, 200);
    expect_left("20 40 ");
}

/* At the same time, by another thread or on another socket. */
static void test_other_operations(void **state)
{
    (void)state;
    put_with_seq(10, RECORDER_RECEIVE, 11, 17);
    put_control(10, 12, R);
    put_receive(20, 11, A);
    put_control(20, 11, R);
    put_sleep(20, 11, SYS_epoll_wait, 4);
    expect_left("10 20 20 ");
}

static void test_window_without_any(void **state)
{
    (void)state;
    const struct flight_window window = {.records = records, .count = 1};
    put_receive(10, 11, R);
    assert_false(control_frames_are_in(&window));
    put_control(10, 11, R);
    assert_true(control_frames_are_in(&(struct flight_window){.records = records, .count = 2}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_operation_and_its_arrival, start_trace),
        cmocka_unit_test_setup(test_arrival_of_later_bytes, start_trace),
        cmocka_unit_test_setup(test_other_operations, start_trace),
        cmocka_unit_test_setup(test_window_without_any, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
