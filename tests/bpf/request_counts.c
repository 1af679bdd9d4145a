/* Cases of test_request.c: how many requests there were, and which of them have a record. See request_counts.h. */
#include "request_counts.h"

#include "requests.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* On one connection; number `slow` (-1: none) takes 600 ms. */
static void send_many(int count, int slow)
{
    int fd = connect_to(THREADS);
    for (int i = 0; i < count; i++) {
        const char *text = i == slow ? "GET /sleep?ms=600 HTTP/1.1\r\n\r\n" : "GET /ok HTTP/1.1\r\n\r\n";
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        expect_text(fd, "ok\n", 1);
    }
    close(fd);
}

/* Every request is counted, also those without a record, and the slowest has a record. */
void test_every_request_is_counted(void **state)
{
    (void)state;
    need_method();
    enum { MANY = 400 };
    uint64_t end = clock_monotonic_ns() + PATIENCE_NS;
    send_many(MANY, MANY / 2);
    await_requests(servers[THREADS], "/sleep", 1);
    do {
        check();
        poll(NULL, 0, 10);
    } while (watch.count + lost(LOSS_REQUEST_NOT_DETAILED) < MANY && clock_monotonic_ns() < end);
    assert_int_equal(watch.count + lost(LOSS_REQUEST_NOT_DETAILED), MANY);
    assert_nothing_lost();
}

/* Some requests have a record whatever they took, and are weighted to represent the others: all of a process's first
 * ones, then one of more and more. By random sampling alone, the sum is off by a factor of four less than once in a
 * million runs. */
void test_sample_stands_for_all_requests(void **state)
{
    enum { MANY = 400, FIRST = 8 };
    uint64_t sum = 0;
    (void)state;
    need_method();
    if (!replace_server(THREADS, "sampled")) /* a new process: nothing is known of it */
        skip();                              /* no PID can be chosen here */
    send_many(MANY, -1);
    send_request(THREADS, "GET", "/status?code=503"); /* failed ones have a budget of their own */
    await_requests(servers[THREADS], "/status", 1);
    while (watch.count + lost(LOSS_REQUEST_NOT_DETAILED) < MANY && poll(NULL, 0, 10) == 0)
        check();
    for (size_t i = 0; i < watch.count; i++) {
        assert_true(i >= FIRST || watch.requests[i]->weight == 1);
        sum += watch.requests[i]->weight;
    }
    assert_in_range(sum, MANY / 4, MANY * 4);
    assert_nothing_lost();
}

/* A PID does not identify a process: the next process with that PID is another service. */
void test_reused_pid_is_another_process(void **state)
{
    static int generation;
    char first[16], second[16];
    (void)state;
    need_method();
    snprintf(first, sizeof(first), "first-%d", generation);
    snprintf(second, sizeof(second), "second-%d", generation++);
    if (!replace_server(THREADS, first)) {
        printf("no PID can be chosen here: %s\n", strerror(errno));
        skip();
    }
    for (int i = 0; i < 3; i++)
        send_request(THREADS, "GET", "/ok");
    await_counted(first, 3);
    assert_true(replace_server(THREADS, second));
    for (int i = 0; i < 2; i++)
        send_request(THREADS, "GET", "/ok");
    await_counted(second, 2);
    assert_int_equal(counted(first), 3);
    assert_nothing_lost();
}
