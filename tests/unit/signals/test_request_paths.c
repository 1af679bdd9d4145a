/* The requests of a turn share one window of the flight recorder while enough budget is left. */
#include "signals/request/request_paths.h"

#include "flight_rings.h"

#include <stdlib.h>
#include <string.h>

#define MS     1000000ull
#define SECOND (1000 * MS)
#define SERVER 70

static void put_switch(struct rings *r, uint64_t at_ns, uint32_t from, uint32_t to)
{
    r->records[r->cpu->scheduler_count++] =
        (struct recorder_record){.time_ns = at_ns, .kind = RECORDER_SWITCH, .tid = from, .value = to};
}

static uint64_t windows(const struct rings *r)
{
    return flight_recorder_stats(r->recorder, clock_monotonic_ns()).windows;
}

struct ended { /* the requests of a turn */
    struct request_path paths[16];
    struct request_record records[16];
    size_t count;
};

static void put_request(struct ended *e, const struct rings *r, uint64_t start_ns, uint64_t duration_ns)
{
    struct request_record *record = &e->records[e->count];
    *record = (struct request_record){.start_ns = r->begin_ns + start_ns, .duration_ns = duration_ns, .status = 200};
    record->h.pid = record->h.tid = SERVER;
    memcpy(record->comm, "server", sizeof("server"));
    e->paths[e->count++] = (struct request_path){.record = record};
}

static void find_paths(struct request_paths *paths, struct ended *ended)
{
    request_paths_find(paths, ended->paths, ended->count);
    for (size_t i = 0; i < ended->count; i++)
        path_segments_clear(&ended->paths[i].segments);
}

static void setup_turn(struct rings *r, struct ended *ended)
{
    for (unsigned i = 0; i < 9; i++) {
        put_switch(r, r->begin_ns + i * 100 * MS, 0, SERVER);
        put_switch(r, r->begin_ns + i * 100 * MS + 50 * MS, SERVER, 0);
        put_request(ended, r, i * 100 * MS, 50 * MS);
    }
}

static void test_requests_of_a_turn_share_a_window(void **state)
{
    struct ended ended = {0};
    struct request_paths *paths;
    struct rings r;
    (void)state;
    open_rings(&r);
    assert_int_equal(request_paths_new(r.recorder, 0.05, &paths), 0);
    setup_turn(&r, &ended);
    find_paths(paths, &ended);
    assert_int_equal(windows(&r), 1);
    request_paths_free(paths);
    close_rings(&r);
}

/* Each window then costs as little as possible: the budget is for the slowest requests. */
static void test_windows_are_short_where_budget_is_scarce(void **state)
{
    struct ended ended = {0};
    struct request_paths *paths;
    struct rings r;
    (void)state;
    open_rings(&r);
    assert_int_equal(request_paths_new(r.recorder, 0.05, &paths), 0);
    request_paths_spend(paths, 30 * MS); /* less than half of the savings is left */
    setup_turn(&r, &ended);
    find_paths(paths, &ended);
    assert_int_equal(windows(&r), ended.count);
    request_paths_free(paths);
    close_rings(&r);
}

static void test_requests_within_a_slow_one_share_its_window(void **state)
{
    struct ended ended = {0};
    struct request_paths *paths;
    struct rings r;
    (void)state;
    open_rings(&r);
    assert_int_equal(request_paths_new(r.recorder, 0.05, &paths), 0);
    request_paths_spend(paths, 30 * MS);
    put_switch(&r, r.begin_ns, 0, SERVER);
    put_request(&ended, &r, 0, 900 * MS);
    for (unsigned i = 1; i < 9; i++)
        put_request(&ended, &r, i * 100 * MS, MS); /* faster than the average: a window of its own is too much */
    find_paths(paths, &ended);
    for (size_t i = 0; i < ended.count; i++)
        assert_int_not_equal(ended.paths[i].no_path, REQUEST_NO_BUDGET);
    assert_int_equal(windows(&r), 1);
    request_paths_free(paths);
    close_rings(&r);
}

static void test_requests_far_apart_have_windows_of_their_own(void **state)
{
    struct ended ended = {0};
    struct request_paths *paths;
    struct rings r;
    (void)state;
    open_rings(&r);
    assert_int_equal(request_paths_new(r.recorder, 0.05, &paths), 0);
    for (unsigned i = 0; i < 3; i++) {
        put_switch(&r, r.begin_ns + i * 3 * SECOND, 0, SERVER);
        put_request(&ended, &r, i * 3 * SECOND, 50 * MS);
    }
    find_paths(paths, &ended);
    assert_int_equal(windows(&r), 3);
    request_paths_free(paths);
    close_rings(&r);
}

static void test_without_budget_no_window_is_read(void **state)
{
    struct ended ended = {0};
    struct request_paths *paths;
    struct rings r;
    (void)state;
    open_rings(&r);
    assert_int_equal(request_paths_new(r.recorder, 0.05, &paths), 0);
    request_paths_spend(paths, 10 * SECOND);
    setup_turn(&r, &ended);
    find_paths(paths, &ended);
    for (size_t i = 0; i < ended.count; i++)
        assert_int_equal(ended.paths[i].no_path, REQUEST_NO_BUDGET);
    assert_int_equal(windows(&r), 0);
    request_paths_free(paths);
    close_rings(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_of_a_turn_share_a_window),
        cmocka_unit_test(test_windows_are_short_where_budget_is_scarce),
        cmocka_unit_test(test_requests_within_a_slow_one_share_its_window),
        cmocka_unit_test(test_requests_far_apart_have_windows_of_their_own),
        cmocka_unit_test(test_without_budget_no_window_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
