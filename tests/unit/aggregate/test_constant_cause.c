/* What requests that always take about as long have in common. */
#include "aggregate/constant_cause.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS  1000000ull
#define MAX 80

static const struct request_segment segment = {.thread = "", .detail = "", .notes = ""};
static struct request requests[MAX];
static struct request *list[MAX];
static size_t count;

/* A request of 150 ms of sleep, and of as much time in the run queue as is said. */
static struct request *add(uint64_t queue_ms)
{
    struct request *r = &requests[count];
    *r = (struct request){.id = count + 1,
                          .duration_ns = (152 + queue_ms) * MS,
                          .segments = &segment,
                          .segment_count = 1,
                          .part_count = 3,
                          .parts = {{REQUEST_PART_RUN_QUEUE, queue_ms * MS, "", ""},
                                    {REQUEST_PART_SLEEP, 150 * MS, "clock_nanosleep in do_GET() backend.py:5", ""},
                                    {REQUEST_PART_CPU, 2 * MS, "", ""}}};
    list[count++] = r;
    return r;
}

static int start(void **state)
{
    (void)state;
    count = 0;
    return 0;
}

static void test_component_of_all_requests_is_found(void **state)
{
    (void)state;
    struct request_constant found;
    add(900); /* the CPU was busy: the sleep is the smaller component here, */
    add(400);
    for (int i = 0; i < 3; i++)
        add(1);
    add(20)->parts[1].detail = "epoll_wait"; /* and not there at all */
    const struct request *typical = constant_cause_find(list, count, &found);
    assert_non_null(typical);
    assert_int_equal(typical->duration_ns, 153 * MS); /* the median */
    assert_int_equal(found.part, 2);
    assert_false(found.is_upstream);
}

/* Added up: the component may be several ones of the request, as with two answers of one service. */
static void test_components_of_a_request_are_added_up(void **state)
{
    (void)state;
    struct request_constant found;
    for (int i = 0; i < 6; i++) {
        struct request *r = add(120);
        r->parts[1].duration_ns = (uint64_t)(i % 2 ? 70 : 80) * MS;
        r->parts[3] = (struct request_part){REQUEST_PART_SLEEP, 150 * MS - r->parts[1].duration_ns,
                                            "clock_nanosleep in do_GET() backend.py:5", ""};
        r->part_count = 4;
    }
    assert_non_null(constant_cause_find(list, count, &found));
    assert_int_equal(list[0]->parts[found.part - 1].kind, REQUEST_PART_SLEEP);
}

/* A wait for a CPU is longer than each of the functions that ran, and shorter than all of them. */
static void test_cpu_time_counts_as_a_whole(void **state)
{
    (void)state;
    struct request_constant found;
    static const char *const functions[] = {"in rank() shop.py:11", "", "in rank() shop.py:12 "};
    for (int i = 0; i < 9; i++) {
        struct request *r = add(15);
        r->duration_ns = 37 * MS;
        r->parts[1] = (struct request_part){REQUEST_PART_CPU, 12 * MS, functions[i % 3], ""};
        r->parts[2] = (struct request_part){REQUEST_PART_CPU, 10 * MS, "", ""};
    }
    const struct request *typical = constant_cause_find(list, count, &found);
    assert_non_null(typical);
    assert_int_equal(typical->parts[found.part - 1].kind, REQUEST_PART_CPU);
    assert_non_null(strstr(typical->parts[found.part - 1].detail, "rank()"));
}

/* The same sleep has several names: code is known by samples of some requests, and the end of a wait is inferred. A
 * busy CPU is no cause then, although its wait has one name. The sentence names what most requests have. */
static void test_wait_with_several_names_counts_as_a_whole(void **state)
{
    (void)state;
    struct request_constant found;
    static const char *const names[] = {"epoll_wait: until a timer expired; its thread waited in select",
                                        "epoll_wait: until a timer expired, as nothing arrived for it", ""};
    for (int i = 0; i < 20; i++) {
        struct request *r = add(60);
        r->parts[1].detail = names[i % 8 < 4 ? 0 : i % 8 < 6 ? 1 : 2];
    }
    const struct request *typical = constant_cause_find(list, count, &found);
    assert_non_null(typical);
    assert_int_equal(typical->parts[found.part - 1].kind, REQUEST_PART_SLEEP);
    assert_string_equal(typical->parts[found.part - 1].detail, names[0]);
}

static void test_too_few_requests_with_a_path_show_nothing(void **state)
{
    (void)state;
    struct request_constant found;
    assert_null(constant_cause_find(list, 0, &found));
    for (int i = 0; i < CONSTANT_CAUSE_MIN; i++)
        add(1);
    list[1]->segment_count = 0;
    assert_null(constant_cause_find(list, count, &found));
    list[1]->segment_count = 1;
    assert_non_null(constant_cause_find(list, count, &found));
}

static void test_what_varies_is_not_constant(void **state)
{
    (void)state;
    struct request_constant found;
    for (int i = 0; i < 20; i++) {
        struct request *r = add((uint64_t)(i % 4) * 100); /* each fourth has none of it */
        r->part_count = 1;
        r->duration_ns = 400 * MS;
        r->parts[1] = (struct request_part){REQUEST_PART_UNATTRIBUTED, 400 * MS - r->parts[0].duration_ns, "", ""};
        r->part_count = 2;
    }
    assert_null(constant_cause_find(list, count, &found));
    for (int i = 0; i < 20; i++) { /* and a small component is no cause */
        list[i]->parts[2] = (struct request_part){REQUEST_PART_DISK, 50 * MS, "", ""};
        list[i]->part_count = 3;
    }
    assert_null(constant_cause_find(list, count, &found));
}

static void call(struct request *r, const char *upstream, uint64_t ms, const char *detail)
{
    r->upstream = upstream;
    r->upstream_longest_ns = ms * MS;
    r->parts[1].detail = detail;
}

/* The service that the requests wait for, and its main activity in that time. */
static void test_service_of_all_requests_is_found(void **state)
{
    (void)state;
    struct request_constant found;
    static const char *const detail =
        "clock_nanosleep in thread 9 of process 8 (python :8199), in do_GET() backend.py:5";
    for (int i = 0; i < 10; i++)
        call(add(i < 2 ? 400 : 5), "127.0.0.1:8199 (python)", 151, detail);
    const struct request *typical = constant_cause_find(list, count, &found);
    assert_non_null(typical);
    assert_true(found.is_upstream);
    assert_int_equal(found.part, 2);
    for (int i = 0; i < 10; i++)
        list[i]->parts[1].duration_ns = 60 * MS; /* less than half of the answer's time */
    assert_non_null(constant_cause_find(list, count, &found));
    assert_true(found.is_upstream);
    assert_int_equal(found.part, 0);
    for (int i = 0; i < 10; i++) {
        call(list[i], "127.0.0.1:8199 (python)", 90, detail);
        list[i]->parts[1].duration_ns = 150 * MS;
    }
    assert_non_null(constant_cause_find(list, count, &found)); /* the component is longer than the answer took */
    assert_false(found.is_upstream);
    assert_int_equal(found.part, 2);
}

/* What the request does itself is no work of the service. */
static void test_own_component_is_not_of_the_service(void **state)
{
    (void)state;
    struct request_constant found;
    for (int i = 0; i < 10; i++)
        call(add(5), "10.0.0.7:5432", 151, "clock_nanosleep in handle() app.py:5");
    assert_non_null(constant_cause_find(list, count, &found));
    assert_true(found.is_upstream);
    assert_int_equal(found.part, 0);
}

/* A service that only some requests call, or each request another one. */
static void test_services_that_differ_are_not_constant(void **state)
{
    (void)state;
    struct request_constant found;
    char names[10][32];
    for (int i = 0; i < 10; i++) {
        snprintf(names[i], sizeof(names[i]), "10.0.0.%d:80", i);
        call(add(5), names[i], 152, "clock_nanosleep in handle() app.py:5");
    }
    assert_non_null(constant_cause_find(list, count, &found));
    assert_false(found.is_upstream);
    assert_int_equal(found.part, 2);
}

static void test_many_requests_are_bounded(void **state)
{
    (void)state;
    struct request_constant found;
    for (int i = 0; i < MAX; i++)
        add((uint64_t)i);
    assert_non_null(constant_cause_find(list, count, &found));
    assert_int_equal(found.part, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_component_of_all_requests_is_found, start),
        cmocka_unit_test_setup(test_components_of_a_request_are_added_up, start),
        cmocka_unit_test_setup(test_cpu_time_counts_as_a_whole, start),
        cmocka_unit_test_setup(test_wait_with_several_names_counts_as_a_whole, start),
        cmocka_unit_test_setup(test_too_few_requests_with_a_path_show_nothing, start),
        cmocka_unit_test_setup(test_what_varies_is_not_constant, start),
        cmocka_unit_test_setup(test_service_of_all_requests_is_found, start),
        cmocka_unit_test_setup(test_own_component_is_not_of_the_service, start),
        cmocka_unit_test_setup(test_services_that_differ_are_not_constant, start),
        cmocka_unit_test_setup(test_many_requests_are_bounded, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
