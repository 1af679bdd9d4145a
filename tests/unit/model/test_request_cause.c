/* What requests with one cause have in common, and the names of services. */
#include "model/request_cause.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ull

static const struct request_segment segments[] = {
    {.duration_ns = 5 * MS, .kind = REQUEST_PART_LOCK, .tid = 4711, .thread = "pool 1", .detail = "", .notes = ""}};

static struct request with_detail(enum request_part_kind kind, const char *detail, const char *stack)
{
    return (struct request){.status = 200,
                            .segments = segments,
                            .segment_count = 1,
                            .part_count = 2,
                            .parts = {{kind, 2 * MS, "a shorter one", ""}, {kind, 5 * MS, detail, stack}}};
}

static void expect_place(const char *detail, const char *stack, const char *expected)
{
    char place[REQUEST_PLACE_BYTES];
    const struct request r = with_detail(REQUEST_PART_LOCK, detail, stack);
    assert_string_equal(request_cause_place(&r, REQUEST_PART_LOCK, place), expected);
}

static void test_place_leaves_out_which_thread_it_was(void **state)
{
    (void)state;
    expect_place("held by thread 4711 pool 1: the holder slept in nap < handle", "",
                 "held by another thread: the holder slept in nap < handle");
    expect_place("clock_nanosleep in thread 4711 pool 1 of process 4700 in nap < handle: do_nanosleep",
                 "do_nanosleep_[k]", "clock_nanosleep in nap < handle");
    expect_place("in thread 4711 pool 1: nothing shows what it did", "", "nothing shows what it did");
    expect_place("clock_nanosleep in thread 4711 pool 1 of process 4700 (worker :80), in nap < handle", "",
                 "clock_nanosleep in nap < handle");
    expect_place("in thread 4711 pool 1", "", "");
    expect_place("in thread 4711 pool 1, in price() shop.py:20", "", "in price() shop.py:20");
    expect_place("in thread 99 unknown", "", " unknown"); /* no segment has its name */
    expect_place("read of app.py:17, 12 times", "", "read of app.py:17");
    expect_place("in thread 4711 pool 1: CPU 1 ran NET_RX, 2 times", "", "its CPU ran NET_RX");
    expect_place("recvfrom to 10.0.0.3:5432, 2 retransmissions, 204 ms of it in query() db.py:7", "",
                 "recvfrom to 10.0.0.3:5432, with retransmissions in query() db.py:7");
    expect_place("", "", "");
}

static void test_long_place_is_cut(void **state)
{
    (void)state;
    char detail[2 * REQUEST_PLACE_BYTES], place[REQUEST_PLACE_BYTES];
    memset(detail, 'x', sizeof(detail) - 1);
    detail[sizeof(detail) - 1] = '\0';
    memcpy(detail + REQUEST_PLACE_BYTES - 5, "thread 4711 pool 1", 18);
    const struct request r = with_detail(REQUEST_PART_DISK, detail, "");
    assert_int_equal(strlen(request_cause_place(&r, REQUEST_PART_DISK, place)), REQUEST_PLACE_BYTES - 1);
    assert_string_equal(request_cause_place(&r, REQUEST_PART_CPU, place), "");
}

static void test_key_is_equal_for_one_cause(void **state)
{
    (void)state;
    struct request a = with_detail(REQUEST_PART_LOCK, "held by thread 4711 pool 1: the holder slept", ""), b = a, c = a;
    b.parts[1].detail = "held by thread 7: the holder slept";
    c.parts[1].detail = "held by thread 4711 pool 1: the holder was running";
    const uint32_t key = request_cause_key(&a, REQUEST_PART_LOCK, true);
    assert_int_equal(request_cause_key(&b, REQUEST_PART_LOCK, true), key);
    assert_int_not_equal(request_cause_key(&c, REQUEST_PART_LOCK, true), key);
    assert_int_not_equal(request_cause_key(&a, REQUEST_PART_DISK, true), key);
    a.status = 503;
    c.status = 503;
    assert_int_not_equal(request_cause_key(&a, REQUEST_PART_LOCK, true), key);
    assert_int_equal(request_cause_key(&a, REQUEST_PART_LOCK, false), request_cause_key(&c, REQUEST_PART_DISK, false));
    c.status = 500;
    assert_int_not_equal(request_cause_key(&a, REQUEST_PART_LOCK, false),
                         request_cause_key(&c, REQUEST_PART_LOCK, false));
}

static void expect_cpu_key(const char *a_detail, const char *b_detail, bool is_equal)
{
    const struct request a = with_detail(REQUEST_PART_CPU, a_detail, ""),
                         b = with_detail(REQUEST_PART_CPU, b_detail, "");
    assert_int_equal(request_cause_key(&a, REQUEST_PART_CPU, true) == request_cause_key(&b, REQUEST_PART_CPU, true),
                     is_equal);
    assert_int_equal(request_part_key(&a, &a.parts[1]) == request_part_key(&b, &b.parts[1]), is_equal);
}

/* Samples of one function show it at several lines, and in whatever it ran. */
static void test_cpu_time_is_grouped_by_function(void **state)
{
    (void)state;
    char place[REQUEST_PLACE_BYTES];
    const struct request r = with_detail(REQUEST_PART_CPU, "in price() shop.py:20, running sha1", "");
    assert_string_equal(request_cause_place(&r, REQUEST_PART_CPU, place), "in price() shop.py:20");
    expect_cpu_key("in price() shop.py:20, running sha1", "in price() shop.py:21, running memcpy", true);
    expect_cpu_key("in price() shop.py:20", "in thread 4711 pool 1, in price() shop.py:21", true);
    expect_cpu_key("in price() shop.py:20", "in tax() shop.py:20", false);
    expect_cpu_key("in price() shop.py:20", "in price() shop.py:20, running garbage collection: gc_collect_main",
                   false);
    expect_cpu_key("in sha1 < update", "in memcpy < update", false);
}

static void test_services_are_told_apart_by_port_and_unit(void **state)
{
    (void)state;
    char text[REQUEST_SERVICE_BYTES], name[300];
    assert_string_equal(request_service_text("uvicorn", "", 8100, text), "uvicorn :8100");
    assert_string_equal(request_service_text("nginx", "nginx.service", 80, text), "nginx.service :80");
    assert_string_equal(request_service_text("shop", "docker.service", 80, text), "shop :80");
    assert_string_equal(request_service_text("nginx", "nginx-debug.service", 0, text), "nginx");
    assert_string_equal(request_service_text("", ".service", 0, text), "");
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(strlen(request_service_text(name, "", 65535, text)), 200 + strlen(" :65535"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place_leaves_out_which_thread_it_was),
        cmocka_unit_test(test_long_place_is_cut),
        cmocka_unit_test(test_key_is_equal_for_one_cause),
        cmocka_unit_test(test_cpu_time_is_grouped_by_function),
        cmocka_unit_test(test_services_are_told_apart_by_port_and_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
