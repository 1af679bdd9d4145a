/* The scan order of processes: every process is scanned in time, with any time limit and any number of new processes;
 * unreadable ones are given up. */
#include "resolve/usdt/usdt_scan.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND 1000000000ull
#define PIDS   100000

struct seen {
    unsigned scans[PIDS]; /* by pid, for those below */
    uint32_t order[PIDS];
    size_t count;
    int answer; /* to the first pid */
};

static int scan(void *context, uint32_t pid, uint64_t end_ns)
{
    struct seen *s = context;
    (void)end_ns;
    if (s->count < PIDS)
        s->order[s->count++] = pid;
    if (pid < PIDS)
        s->scans[pid]++;
    return pid == 77 ? s->answer : 0;
}

static struct seen seen;

static struct usdt_scan *begin(void)
{
    struct usdt_scan *l;
    memset(&seen, 0, sizeof(seen));
    assert_int_equal(usdt_scan_new(&(struct usdt_scan_options){.context = &seen, .scan = scan}, &l), 0);
    return l;
}

static struct usdt_scan_stats stats_of(const struct usdt_scan *l)
{
    struct usdt_scan_stats stats;
    usdt_scan_stats(l, &stats);
    return stats;
}

static void test_processes_are_scanned_in_order_and_once(void **state)
{
    (void)state;
    struct usdt_scan *l = begin();
    for (uint32_t pid = 1; pid <= 10; pid++)
        usdt_scan_want(l, 11 - pid);
    usdt_scan_want(l, 5);
    usdt_scan_turn_at(l, SECOND, 0); /* one, even with a time limit of zero */
    assert_int_equal(seen.count, 1);
    usdt_scan_turn_at(l, SECOND, 60 * SECOND);
    assert_int_equal(seen.count, 10);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(seen.order[i], 10 - i);
    usdt_scan_free(l);
}

static void test_scan_resumes_after_the_time_limit(void **state)
{
    (void)state;
    struct usdt_scan *l = begin();
    seen.answer = -EAGAIN;
    usdt_scan_want(l, 77);
    usdt_scan_want(l, 78);
    for (int i = 0; i < 100; i++)
        usdt_scan_turn_at(l, SECOND, 0);
    assert_int_equal(seen.scans[78], 1);
    assert_int_equal(seen.scans[77], 99);
    seen.answer = 0;
    usdt_scan_turn_at(l, SECOND, 0);
    assert_int_equal(stats_of(l).waiting, 0);
    assert_int_equal(stats_of(l).unread, 0);
    usdt_scan_free(l);
}

static void test_unreadable_process_is_retried_a_few_times(void **state)
{
    (void)state;
    struct usdt_scan *l = begin();
    seen.answer = -ETIMEDOUT;
    usdt_scan_want(l, 77);
    for (int i = 0; i < 10; i++)
        usdt_scan_turn_at(l, SECOND, 60 * SECOND);
    assert_int_equal(seen.scans[77], 1); /* not again at once */
    usdt_scan_want(l, 77);               /* but again after a change */
    usdt_scan_turn_at(l, SECOND, 60 * SECOND);
    assert_int_equal(seen.scans[77], 2);
    for (uint64_t s = 2; s < 1000; s++)
        usdt_scan_turn_at(l, s * SECOND, 60 * SECOND);
    assert_in_range(seen.scans[77], 4, 10);
    assert_int_equal(stats_of(l).unread, seen.scans[77]);
    assert_int_equal(stats_of(l).given_up, 1);
    assert_int_equal(stats_of(l).waiting, 0);
    usdt_scan_free(l);
}

/* The scan of all processes finishes although another is requested in every turn, and new processes start in each. */
static void test_scan_ends_with_many_new_processes(void **state)
{
    (void)state;
    struct usdt_scan *l = begin();
    uint32_t next = 1u << 24; /* of processes that do not exist */
    for (int i = 0; i < 100000 && stats_of(l).walks == 0; i++) {
        usdt_scan_want_all(l);
        usdt_scan_want(l, next++);
        usdt_scan_want(l, next++);
        usdt_scan_turn_at(l, SECOND, 0);
    }
    assert_int_equal(stats_of(l).walks, 1);
    assert_true((uint32_t)getpid() >= PIDS || seen.scans[getpid()] > 0);
    for (int i = 0; i < 1000; i++) /* the next scan waits a while */
        usdt_scan_turn_at(l, SECOND, 0);
    assert_int_equal(stats_of(l).walks, 1);
    for (int i = 0; i < 100000 && stats_of(l).walks == 1; i++)
        usdt_scan_turn_at(l, 10 * SECOND, 0);
    assert_int_equal(stats_of(l).walks, 2);
    usdt_scan_free(l);
}

/* Requests that exceed the queue are found by the full scan, if the processes exist. */
static void test_scan_finds_processes_beyond_the_queue(void **state)
{
    (void)state;
    struct usdt_scan *l = begin();
    for (uint32_t pid = 0; pid < 50000; pid++)
        usdt_scan_want(l, (1u << 24) + pid);
    const size_t waiting = stats_of(l).waiting;
    assert_in_range(waiting, 1000, 10000);
    usdt_scan_turn_at(l, SECOND, 60 * SECOND);
    assert_int_equal(stats_of(l).waiting, 0);
    assert_int_equal(stats_of(l).walks, 1);
    assert_true((uint32_t)getpid() >= PIDS || seen.scans[getpid()] == 1);
    usdt_scan_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes_are_scanned_in_order_and_once),
        cmocka_unit_test(test_scan_resumes_after_the_time_limit),
        cmocka_unit_test(test_unreadable_process_is_retried_a_few_times),
        cmocka_unit_test(test_scan_ends_with_many_new_processes),
        cmocka_unit_test(test_scan_finds_processes_beyond_the_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
