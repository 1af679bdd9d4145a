/* The slowest requests: order, bounds, replacement by id, ageing, wall clock steps. */
#include "aggregate/requests.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SECOND 1000000000ull
#define NOW    (1000000 * SECOND)

static const char *route = "/";

static int add_at(struct requests *r, uint64_t id, uint64_t start_ns, uint64_t start_unix_ns, uint64_t duration_ns)
{
    struct request request = {.id = id,
                              .start_ns = start_ns,
                              .start_unix_ns = start_unix_ns,
                              .duration_ns = duration_ns,
                              .service = "s",
                              .method = "GET",
                              .route = route,
                              .peer = "",
                              .cause = "",
                              .container_id = "",
                              .status = 200};
    struct request *copy;
    assert_int_equal(request_copy(&request, &copy), 0);
    return requests_add(r, copy);
}

static int add_request(struct requests *r, uint64_t id, uint64_t start_ns, uint64_t duration_ns)
{
    return add_at(r, id, start_ns, 5, duration_ns);
}

static size_t slowest(struct requests *r, uint64_t since, size_t max, uint64_t *ret_durations)
{
    struct request **list;
    size_t count = 0;
    assert_int_equal(requests_slowest(r, since, max, false, &list, &count), 0);
    for (size_t i = 0; i < count; i++) {
        ret_durations[i] = list[i]->duration_ns;
        request_free(list[i]);
    }
    free(list);
    return count;
}

static void test_slowest_first(void **state)
{
    (void)state;
    _cleanup_(requests_freep) struct requests *r = NULL;
    uint64_t d[8];
    assert_int_equal(requests_new(1 << 20, &r), 0);
    assert_int_equal(slowest(r, 0, 8, d), 0);
    add_request(r, 1, NOW, 5);
    add_request(r, 2, NOW + 20 * SECOND, 9);
    add_request(r, 3, NOW + 20 * SECOND, 7);
    assert_int_equal(slowest(r, 0, 8, d), 3);
    assert_int_equal(d[0], 9);
    assert_int_equal(d[1], 7);
    assert_int_equal(d[2], 5);
    assert_int_equal(slowest(r, 0, 2, d), 2);
    assert_int_equal(slowest(r, NOW + SECOND, 8, d), 2);
}

static void test_later_record_replaces_the_earlier_one(void **state)
{
    (void)state;
    _cleanup_(requests_freep) struct requests *r = NULL;
    uint64_t d[8];
    assert_int_equal(requests_new(1 << 20, &r), 0);
    add_request(r, 7, NOW, SECOND);
    add_request(r, 7, NOW, 30 * SECOND); /* ends in another slot */
    assert_int_equal(slowest(r, 0, 8, d), 1);
    assert_int_equal(d[0], 30 * SECOND);
    add_request(r, 0, NOW, 1); /* 0 is not an id */
    add_request(r, 0, NOW, 2);
    assert_int_equal(slowest(r, 0, 8, d), 3);
}

static void test_bound_keeps_the_slowest(void **state)
{
    (void)state;
    _cleanup_(requests_freep) struct requests *r = NULL;
    uint64_t d[2000];
    assert_int_equal(requests_new(10000, &r), 0);
    for (uint64_t i = 0; i < 1000; i++)
        add_request(r, 1 + i, NOW, 1 + i * 7919 % 1000);
    size_t count = slowest(r, 0, 2000, d);
    assert_in_range(count, 2, 12);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(d[i], 1000 - i);
    assert_int_equal(add_request(r, 5000, NOW, 1), -ENOSPC);
}

static void test_slow_route_does_not_displace_others(void **state)
{
    (void)state;
    _cleanup_(requests_freep) struct requests *r = NULL;
    uint64_t d[2000];
    assert_int_equal(requests_new(30000, &r), 0);
    for (uint64_t i = 0; i < 100; i++) {
        route = "/fast";
        add_request(r, 1 + i, NOW, 1 + i);
        route = "/slow";
        add_request(r, 1001 + i, NOW, 1000 + i);
    }
    route = "/";
    const size_t count = slowest(r, 0, 2000, d);
    size_t fast = 0;
    for (size_t i = 0; i < count; i++)
        fast += d[i] < 1000;
    assert_in_range(count, 6, 40);
    assert_in_range(fast, (count - 1) / 2, (count + 1) / 2);
    assert_int_equal(d[0], 1099);
    assert_int_equal(d[count - fast], 100);
}

/* Memory that quiet periods do not need is used by others. */
static void test_one_busy_period_uses_the_memory(void **state)
{
    (void)state;
    _cleanup_(requests_freep) struct requests *r = NULL;
    uint64_t d[2000];
    assert_int_equal(requests_new(1 << 20, &r), 0);
    for (uint64_t i = 0; i < 200; i++)
        assert_int_equal(add_request(r, 1 + i, NOW, 1 + i), 0);
    assert_int_equal(slowest(r, 0, 2000, d), 200);
    for (uint64_t i = 0; i < 2000; i++)
        add_request(r, 1001 + i, NOW + 20 * SECOND, 1001 + i);
    const size_t count = slowest(r, 0, 2000, d);
    assert_int_equal(d[count - 1], 1);
    assert_in_range(slowest(r, NOW + 10 * SECOND, 2000, d), 200, count - 200);
}

static void test_old_requests_expire(void **state)
{
    (void)state;
    _cleanup_(requests_freep) struct requests *r = NULL;
    uint64_t d[8];
    assert_int_equal(requests_new(1 << 20, &r), 0);
    add_request(r, 1, NOW, 50);
    add_request(r, 2, NOW + 290 * SECOND, 40);
    assert_int_equal(slowest(r, 0, 8, d), 2);
    add_request(r, 3, NOW + 400 * SECOND, 30);
    assert_int_equal(slowest(r, 0, 8, d), 2);
    assert_int_equal(d[0], 40);
}

/* The clock steps by hours and by milliseconds, forwards and back: the kept, found and replaced requests stay the same.
 */
static void test_wall_clock_step_changes_nothing(void **state)
{
    (void)state;
    static const int64_t steps_ns[] = {0, -7200 * (int64_t)SECOND, 7200 * (int64_t)SECOND, -3000000, 3000000};
    _cleanup_(requests_freep) struct requests *r = NULL;
    uint64_t d[8];
    assert_int_equal(requests_new(1 << 20, &r), 0);
    for (size_t i = 0; i < 5; i++)
        add_at(r, 1 + i, NOW + i * SECOND, NOW * 1000 + i * SECOND + steps_ns[i], 50 - i);
    add_at(r, 1, NOW, NOW * 500, 60); /* an update of the first one, on a clock that has been set */
    assert_int_equal(slowest(r, 0, 8, d), 5);
    assert_int_equal(d[0], 60);
    assert_int_equal(d[1], 49);
    assert_int_equal(slowest(r, NOW + 3 * SECOND, 8, d), 2);
}

/* It would take the slot of a newer one. */
static void test_a_smaller_limit_drops_requests_and_counts_them(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    _cleanup_(requests_freep) struct requests *r = NULL;
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    uint64_t d[COUNT];
    double dropped = -1;
    assert_int_equal(requests_new(1 << 20, &r), 0);
    for (uint64_t i = 0; i < COUNT; i++)
        assert_int_equal(add_request(r, i + 1, NOW, i + 1), 0);
    requests_limit(r, 1 << 21);
    assert_int_equal(slowest(r, 0, COUNT, d), COUNT);
    requests_limit(r, 20000);
    const size_t kept = slowest(r, 0, COUNT, d);
    assert_in_range(kept, 1, COUNT / 2);
    assert_int_equal(d[0], COUNT); /* the slowest */
    assert_int_equal(metric_set_new(&set), 0);
    requests_metrics(r, set);
    for (size_t i = 0; i < metric_set_families(set); i++)
        if (strcmp(metric_set_family(set, i).name, "sonde_self_requests_dropped") == 0)
            dropped = metric_set_family(set, i).points[0].value;
    assert_int_equal((size_t)dropped, COUNT - kept);
}

static void test_late_request_is_dropped(void **state)
{
    (void)state;
    _cleanup_(requests_freep) struct requests *r = NULL;
    uint64_t d[8];
    assert_int_equal(requests_new(1 << 20, &r), 0);
    add_request(r, 1, NOW, 50);
    assert_int_equal(add_request(r, 2, NOW - 310 * SECOND, 70), -ENOSPC);
    assert_int_equal(slowest(r, 0, 8, d), 1);
    assert_int_equal(d[0], 50);
}

static void test_counters_are_bounded(void **state)
{
    (void)state;
    _cleanup_(requests_freep) struct requests *r = NULL;
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    assert_int_equal(requests_new(1 << 20, &r), 0);
    double sum = 0;
    for (int i = 0; i < 1000; i++) {
        char service[16];
        struct request *copy;
        snprintf(service, sizeof(service), "s%d", i);
        assert_int_equal(request_copy(&(struct request){.service = service, .status = 200, .start_ns = NOW}, &copy), 0);
        requests_add(r, copy);
    }
    assert_int_equal(metric_set_new(&set), 0);
    requests_metrics(r, set);
    struct metric_family family = metric_set_family(set, 0);
    assert_string_equal(family.name, "sonde_requests_detailed");
    assert_true(family.point_count <= 256);
    for (size_t i = 0; i < family.point_count; i++)
        sum += family.points[i].value;
    assert_true(sum == 1000);
}

/* 30 usual requests of 10 ms, then slow ones: the groups have the slowest of each cause. */
static void test_groups_have_examples(void **state)
{
    (void)state;
    _cleanup_(requests_freep) struct requests *r = NULL;
    struct request **list, *found = NULL;
    size_t count = 0;
    assert_int_equal(requests_new(1 << 20, &r), 0);
    for (uint64_t i = 1; i <= 30; i++) {
        struct request usual = {.id = i,
                                .start_ns = NOW,
                                .duration_ns = 10000000,
                                .service = "s",
                                .method = "GET",
                                .route = "/",
                                .status = 200,
                                .weight = 1};
        struct request *copy;
        assert_int_equal(request_copy(&usual, &copy), 0);
        assert_int_equal(requests_add(r, copy), 0);
    }
    const struct {
        enum request_part_kind kind;
        uint64_t ms;
        uint16_t status;
    } slow[] = {{REQUEST_PART_LOCK, 60, 200},
                {REQUEST_PART_LOCK, 90, 200},
                {REQUEST_PART_DISK, 80, 200},
                {REQUEST_PART_CPU, 1, 500}};
    for (uint64_t i = 0; i < 4; i++) {
        struct request one = {.id = 100 + i,
                              .start_ns = NOW,
                              .duration_ns = slow[i].ms * 1000000,
                              .service = "s",
                              .method = "GET",
                              .route = "/",
                              .status = slow[i].status,
                              .part_count = 1,
                              .parts = {{slow[i].kind, slow[i].ms * 1000000, "", ""}}};
        struct request *copy;
        assert_int_equal(request_copy(&one, &copy), 0);
        assert_int_equal(requests_add(r, copy), 0);
    }
    assert_int_equal(requests_choose(r, NOW, NOW + SECOND, REQUEST_CHOICE_GROUPS, 10, &list, &count), 0);
    assert_int_equal(count, 3);
    assert_true(list[0]->id == 101 && list[1]->id == 102 && list[2]->id == 103);
    assert_true(list[0]->group.requests == 2 && list[0]->group.lost_ns == 130000000);
    assert_int_equal(list[1]->group.lost_ns, 70000000);
    assert_int_equal(list[2]->group.lost_ns, 0);
    assert_int_equal(list[0]->usual.p50_ns, 10000000);
    for (size_t i = 0; i < count; i++)
        request_free(list[i]);
    free(list);
    struct request_route *routes;
    assert_int_equal(requests_routes(r, NOW, NOW + SECOND, &routes, &count), 0);
    assert_int_equal(count, 1);
    const struct {
        uint64_t example_id;
        uint32_t wrong_key;
        uint64_t expected;
    } cases[] = {
        {101, 0, 101}, {7777, 0, 101}, {7777, 1, 101}}; /* the example; of its cause; of its kind: the slowest */
    for (size_t i = 0; i < 3; i++) {
        routes[0].causes[0].example_id = cases[i].example_id;
        routes[0].causes[0].key += cases[i].wrong_key;
        assert_int_equal(requests_example(r, NOW, &routes[0], 0, &found), 0);
        assert_int_equal(found->id, cases[i].expected);
        assert_int_equal(found->usual.p50_ns, 10000000);
        request_free(found);
    }
    routes[0].causes[0].kind = REQUEST_PART_STEAL;
    assert_int_equal(requests_example(r, NOW, &routes[0], 0, &found), -ENOENT);
    free(routes);
    assert_int_equal(requests_choose(r, NOW, NOW + SECOND, REQUEST_CHOICE_ALL, 1, &list, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(list[0]->id, 101);
    request_free(list[0]);
    free(list);
}

static void add_slow_at(struct requests *r, uint64_t id, uint64_t start_ns, const char *of, uint64_t ms,
                        enum request_part_kind kind, const char *detail, uint32_t weight)
{
    struct request one = {.id = id,
                          .start_ns = start_ns,
                          .duration_ns = ms * 1000000,
                          .service = "s",
                          .method = "GET",
                          .route = of,
                          .status = 200,
                          .weight = weight,
                          .part_count = 1,
                          .parts = {{kind, ms * 1000000, detail, ""}}};
    struct request *copy;
    assert_int_equal(request_copy(&one, &copy), 0);
    (void)requests_add(r, copy); /* which may not keep it: the faster one */
}

static void add_slow(struct requests *r, uint64_t id, const char *of, uint64_t ms, const char *detail, uint32_t weight)
{
    add_slow_at(r, id, NOW, of, ms, REQUEST_PART_LOCK, detail, weight);
}

/* Adds 30 usual requests of 10 ms to the route "/", in the period before the tests' slow ones. */
static void add_usual(struct requests *r)
{
    for (uint64_t i = 0; i < 30; i++)
        add_slow_at(r, 1 + i, NOW - 60 * SECOND, "/", 10, REQUEST_PART_CPU, "", 1);
}

/* However many requests a cause has, and however slow they are, another cause of the route keeps its slowest one. */
static void test_frequent_cause_does_not_displace_others(void **state)
{
    (void)state;
    _cleanup_(requests_freep) struct requests *r = NULL;
    struct request **list;
    size_t count = 0;
    assert_int_equal(requests_new(20 << 10, &r), 0);
    add_usual(r);
    for (uint64_t i = 0; i < 20; i++) {
        add_slow(r, 100 + i, "/", 200 + i, "held by a", 0);
        add_slow_at(r, 200 + i, NOW, "/", 100 + i, REQUEST_PART_DISK, "", 0);
    }
    assert_int_equal(requests_choose(r, NOW, NOW + SECOND, REQUEST_CHOICE_GROUPS, 10, &list, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(list[0]->id, 119);
    assert_int_equal(list[1]->id, 219);
    for (size_t i = 0; i < count; i++)
        request_free(list[i]);
    free(list);
}

/* No group is shown twice: without a kept example of its own it joins the group whose example it would show. The groups
 * add up to the route, also where no request of a group's kind is kept. */
static void test_group_without_example_joins_another(void **state)
{
    (void)state;
    static const enum request_part_kind kinds[] = {REQUEST_PART_LOCK, REQUEST_PART_DISK};
    for (size_t i = 0; i < 2; i++) {
        _cleanup_(requests_freep) struct requests *r = NULL;
        _cleanup_free_ struct request_route *routes = NULL;
        struct request *found = NULL, **list;
        size_t count = 0, route_count = 0;
        assert_int_equal(requests_new(1 << 20, &r), 0);
        for (uint64_t k = 0; k < 30; k++)
            add_slow(r, 1 + k, "/", 10, "", 1);
        add_slow(r, 100, "/", 80, "held by a", 0);
        add_slow_at(r, 101, NOW - 2 * REQUESTS_KEPT_SECONDS * SECOND, "/", 90, kinds[i], "held by b",
                    0); /* too late to be kept as an example */
        assert_int_equal(requests_routes(r, 0, NOW + SECOND, &routes, &route_count), 0);
        assert_int_equal(routes[0].cause_count, 2);
        assert_int_equal(routes[0].causes[0].example_id, 101);
        /* The cause of the route is not worded by a request of another kind. */
        assert_int_equal(requests_example(r, 0, &routes[0], 0, &found), i == 0 ? 0 : -ENOENT);
        request_free(found);
        assert_int_equal(requests_choose(r, 0, NOW + SECOND, REQUEST_CHOICE_GROUPS, 10, &list, &count), 0);
        assert_int_equal(count, 1);
        assert_int_equal(list[0]->id, 100);
        assert_int_equal(list[0]->group.requests, 2);
        assert_int_equal(list[0]->group.lost_ns, (70 + 80) * 1000000);
        assert_int_equal(list[0]->group.lost_ns, routes[0].lost_ns);
        assert_int_equal(list[0]->group.time_ns, (80 + 90) * 1000000);
        request_free(list[0]);
        free(list);
    }
}

/* Two groups that share an example are one, which lost more time than a group that was larger than either. */
static void test_joined_groups_are_sorted_by_their_sum(void **state)
{
    (void)state;
    _cleanup_(requests_freep) struct requests *r = NULL;
    struct request **list;
    size_t count = 0;
    assert_int_equal(requests_new(1 << 20, &r), 0);
    for (uint64_t i = 0; i < 30; i++)
        add_slow(r, 1 + i, "/", 10, "", 1);
    add_slow_at(r, 100, NOW, "/", 90, REQUEST_PART_DISK, "", 0);
    add_slow(r, 101, "/", 70, "held by a", 0);
    add_slow_at(r, 102, NOW - 2 * REQUESTS_KEPT_SECONDS * SECOND, "/", 60, REQUEST_PART_LOCK, "held by b",
                0); /* too late to be kept as an example */
    assert_int_equal(requests_choose(r, 0, NOW + SECOND, REQUEST_CHOICE_GROUPS, 10, &list, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(list[0]->id, 101);
    assert_int_equal(list[0]->group.lost_ns, (60 + 50) * 1000000);
    assert_int_equal(list[0]->group.time_ns, (70 + 60) * 1000000);
    assert_int_equal(list[1]->id, 100);
    assert_int_equal(list[1]->group.lost_ns, 80 * 1000000);
    for (size_t i = 0; i < count; i++)
        request_free(list[i]);
    free(list);
}

/* A slow route of few requests stands above a fast one of many until its median is known. */
static void test_route_without_median_is_ranked_by_its_time(void **state)
{
    (void)state;
    _cleanup_(requests_freep) struct requests *r = NULL;
    struct request_route *routes;
    struct request **list;
    size_t count = 0;
    assert_int_equal(requests_new(1 << 20, &r), 0);
    for (uint64_t i = 0; i < 30; i++)
        add_slow(r, 1 + i, "/fast", 1, "", 1);
    add_slow(r, 50, "/fast", 40, "", 1);
    for (uint64_t i = 0; i < 5; i++)
        add_slow(r, 100 + i, "/report", 200, "", 1);
    assert_int_equal(requests_routes(r, NOW, NOW + SECOND, &routes, &count), 0);
    assert_int_equal(count, 2);
    assert_string_equal(routes[0].route, "/report");
    assert_int_equal(request_route_rank_ns(&routes[0]), 1000000000);
    assert_int_equal(routes[1].lost_ns, 39000000);
    free(routes);
    assert_int_equal(requests_choose(r, NOW, NOW + SECOND, REQUEST_CHOICE_GROUPS, 1, &list, &count), 0);
    assert_string_equal(list[0]->route, "/report");
    request_free(list[0]);
    free(list);
}

/* Groups of routes without an abnormal request are left out on demand. */
static void test_abnormal_groups(void **state)
{
    (void)state;
    _cleanup_(requests_freep) struct requests *r = NULL;
    struct request **list;
    size_t count = 0;
    assert_int_equal(requests_new(1 << 20, &r), 0);
    for (uint64_t i = 1; i <= 30; i++) {
        struct request usual = {.id = i,
                                .start_ns = NOW,
                                .duration_ns = 10000000,
                                .service = "s",
                                .method = "GET",
                                .route = "/",
                                .status = 200,
                                .weight = 1};
        struct request *copy;
        assert_int_equal(request_copy(&usual, &copy), 0);
        assert_int_equal(requests_add(r, copy), 0);
    }
    assert_int_equal(requests_choose(r, NOW, NOW + SECOND, REQUEST_CHOICE_ABNORMAL_GROUPS, 10, &list, &count), 0);
    assert_int_equal(count, 0);
    free(list);
    assert_int_equal(requests_choose(r, NOW, NOW + SECOND, REQUEST_CHOICE_GROUPS, 10, &list, &count), 0);
    assert_int_equal(count, 1);
    assert_true(list[0]->group.requests == 30 && list[0]->group.lost_ns == 0);
    request_free(list[0]);
    free(list);
}

/* Requests that always take 100 ms, for a lock; in two of them, another wait is longer. */
static void test_constant_cause_of_a_route(void **state)
{
    (void)state;
    static const struct request_segment segment = {.thread = "", .detail = "", .notes = ""};
    _cleanup_(requests_freep) struct requests *r = NULL;
    _cleanup_free_ struct request_route *routes = NULL;
    struct request *found, **list;
    size_t count = 0;
    assert_int_equal(requests_new(1 << 20, &r), 0);
    for (uint64_t i = 1; i <= 30; i++) {
        const uint64_t queue_ms = i <= 2 ? 180 : i % 3;
        struct request one = {.id = i,
                              .start_ns = NOW,
                              .duration_ns = (100 + queue_ms) * 1000000,
                              .service = "s",
                              .method = "GET",
                              .route = "/",
                              .status = 200,
                              .weight = 1,
                              .part_count = 2,
                              .parts = {{REQUEST_PART_RUN_QUEUE, queue_ms * 1000000, "", ""},
                                        {REQUEST_PART_LOCK, 100000000, "held by b", ""}},
                              .segments = &segment,
                              .segment_count = i <= 4 || i > 20};
        struct request *copy;
        assert_int_equal(request_copy(&one, &copy), 0);
        assert_int_equal(requests_add(r, copy), 0);
    }
    assert_int_equal(requests_routes(r, NOW, NOW + SECOND, &routes, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(routes[0].cause_count, 1);
    assert_int_equal(routes[0].causes[0].kind, REQUEST_PART_LOCK);
    assert_int_equal(requests_example(r, NOW, &routes[0], 0, &found), 0);
    assert_int_equal(found->duration_ns, 101000000);
    assert_int_equal(found->constant.part, 2);
    request_free(found);
    assert_int_equal(requests_choose(r, NOW, NOW + SECOND, REQUEST_CHOICE_GROUPS, 10, &list, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(list[0]->duration_ns, 101000000);
    assert_int_equal(list[0]->constant.part, 2);
    request_free(list[0]);
    free(list);
    routes[0].causes[0].example_id = 7777; /* of another request, the number of its component is not known */
    assert_int_equal(requests_example(r, NOW, &routes[0], 0, &found), 0);
    assert_int_equal(found->constant.part, 0);
    request_free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_have_examples),
        cmocka_unit_test(test_abnormal_groups),
        cmocka_unit_test(test_constant_cause_of_a_route),
        cmocka_unit_test(test_frequent_cause_does_not_displace_others),
        cmocka_unit_test(test_group_without_example_joins_another),
        cmocka_unit_test(test_joined_groups_are_sorted_by_their_sum),
        cmocka_unit_test(test_route_without_median_is_ranked_by_its_time),
        cmocka_unit_test(test_slowest_first),
        cmocka_unit_test(test_later_record_replaces_the_earlier_one),
        cmocka_unit_test(test_bound_keeps_the_slowest),
        cmocka_unit_test(test_slow_route_does_not_displace_others),
        cmocka_unit_test(test_one_busy_period_uses_the_memory),
        cmocka_unit_test(test_old_requests_expire),
        cmocka_unit_test(test_wall_clock_step_changes_nothing),
        cmocka_unit_test(test_a_smaller_limit_drops_requests_and_counts_them),
        cmocka_unit_test(test_late_request_is_dropped),
        cmocka_unit_test(test_counters_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
