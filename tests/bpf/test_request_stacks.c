/* The user stacks of waits, walked in the kernel: both ways to take them, with and without unwind tables of the
 * servers. Asserts that each stack is complete and belongs to its wait, and that a copy of the stack precedes the
 * request where unwind tables are missing. */
#include "requests.h"
#include "rows.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ATTEMPTS 8

static void put_rows(int server)
{
    struct unwind_tables *tables = shared_tables_unwind(watch.tables);
    assert_non_null(tables);
    assert_true(unwind_load_process(tables, servers[server]) > 0);
}

/* `functions` in this order, leaf first, with no other function of ours between them, up to the thread's entry. */
static void assert_stack(const struct request *r, enum request_part_kind kind, const char *functions)
{
    for (size_t i = 0; i < r->part_count; i++) {
        const char *stack = r->parts[i].stack;
        if (r->parts[i].kind != kind || !stack[0])
            continue;
        if (!strstr(stack, functions) || strstr(stack, "[truncated"))
            fail_msg("%s: not \"%s\" in \"%s\"", r->route, functions, stack);
        return;
    }
    fail_msg("%s: no part %s has a stack; cause: %s", r->route, request_part_name(kind), r->cause);
}

static bool has_stack(const struct request *r, enum request_part_kind kind)
{
    for (size_t i = 0; i < r->part_count; i++)
        if (r->parts[i].kind == kind && r->parts[i].stack[0])
            return true;
    return false;
}

/* A request that has a stack, of a few: on a busy machine the share of the CPU's time for walks may be spent. */
static const struct request *request_with_stack(int server, const char *route, const char *target,
                                                enum request_part_kind kind)
{
    const struct request *r = NULL;
    for (size_t count = 1; count <= ATTEMPTS && !(r && has_stack(r, kind)); count++) {
        send_request(server, "GET", target);
        r = await_requests(servers[server], route, count);
    }
    return r;
}

static void expect_stacks(int server)
{
    put_rows(server);
    assert_stack(request_with_stack(server, "/sleep", "/sleep?ms=40", REQUEST_PART_SLEEP), REQUEST_PART_SLEEP,
                 "sleep_ms\n");
    assert_stack(request_with_stack(server, "/lock", "/lock?ms=40", REQUEST_PART_LOCK), REQUEST_PART_LOCK,
                 "wait_for_lock\n");
    assert_stack(request_with_stack(server, "/naps", "/naps?ms=40", REQUEST_PART_SLEEP), REQUEST_PART_SLEEP,
                 "sleep_ms\nnap_long\n");
    assert_nothing_lost();
}

static void test_stacks_of_threads(void **state)
{
    (void)state;
    need_stacks();
    expect_stacks(THREADS);
}

static void test_stacks_of_an_event_loop(void **state)
{
    (void)state;
    need_stacks();
    expect_stacks(EPOLL);
}

/* Work after the reply is not part of the request. The last chunk follows the one before too soon for a record of its
 * own: that record is made when the connection ends, long after the thread went to sleep elsewhere. */
static void test_stacks_of_a_stream(void **state)
{
    (void)state;
    need_stacks();
    put_rows(THREADS);
    send_request(THREADS, "GET", "/chunked?ms=10&n=12&after=200");
    const struct request *r = await_requests(servers[THREADS], "/chunked", 1);
    for (int i = 0; i < 600 && !strstr(r->parts[0].detail, "12 times"); i++) {
        usleep(10000);
        check();
        r = await_requests(servers[THREADS], "/chunked", 1);
    }
    assert_stack(r, REQUEST_PART_SLEEP, "sleep_ms\n");
    for (size_t i = 0; i < r->part_count; i++)
        assert_null(strstr(r->parts[i].stack, "nap_after"));
}

/* The prefork server's processes have no unwind tables. */
static void test_stack_copy_without_unwind_table(void **state)
{
    (void)state;
    need_stacks();
    send_request(PREFORK, "GET", "/sleep?ms=40");
    await_requests(0, "/sleep", 1);
    const struct request_record *r = &watch.last.r;
    for (size_t i = 0; i < r->wait_count; i++) {
        const struct request_wait *w = &r->waits[i];
        if (w->longest_ns < 10000000)
            continue;
        assert_int_equal(w->user_end, REQUEST_STACK_APART);
        for (size_t k = 0; k < watch.apart_count; k++)
            if (watch.apart[k].h.time_ns == w->stack && watch.apart[k].h.tid == r->h.tid) {
                assert_int_equal(watch.apart[k].user_end, UNWIND_END_NO_PROCESS);
                assert_true(watch.apart[k].stack_bytes >= 256);
                return;
            }
        fail_msg("none of %zu stacks belongs to this wait", watch.apart_count);
    }
    fail_msg("no long wait");
}

#define CASES(name, walks)                                                                                             \
    {"stacks_of_threads_" name, test_stacks_of_threads, watch_begin, watch_end,                                        \
     ON_METHOD_WALKING(REQUEST_METHOD_BEST, walks)},                                                                   \
        {"stacks_of_an_event_loop_" name, test_stacks_of_an_event_loop, watch_begin, watch_end,                        \
         ON_METHOD_WALKING(REQUEST_METHOD_BEST, walks)},                                                               \
        {"stacks_of_a_stream_" name, test_stacks_of_a_stream, watch_begin, watch_end,                                  \
         ON_METHOD_WALKING(REQUEST_METHOD_BEST, walks)},                                                               \
    {                                                                                                                  \
        "stack_copy_without_unwind_table_" name, test_stack_copy_without_unwind_table, watch_begin, watch_end,         \
            ON_METHOD_WALKING(REQUEST_METHOD_BEST, walks)                                                              \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASES("at_return", REQUEST_WALKS_AT_RETURN),
        CASES("at_leaving", REQUEST_WALKS_AT_LEAVING),
    };
    if (geteuid() != 0) {
        printf("skipped: BPF needs root\n");
        return 77;
    }
    mkdir("/var", 0755); /* an initramfs has none */
    mkdir("/var/tmp", 01777);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, start_servers, stop_servers);
}
