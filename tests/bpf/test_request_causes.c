/* The durations of injected causes: an injected wait is recorded whole, little else is attributed, and little is
 * unattributed. Uses the best attach method. bpf/request asserts that a cause is found and named. */
#include "request_cause.h"
#include "requests.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* The awaited thread sleeps: the holder of a lock, the writer of a pipe, a service of this node. */
static void expect_causes(int server)
{
    const unsigned long long ticks = taken_ticks();
    char downstream[64];
    snprintf(downstream, sizeof(downstream), "/downstream?ms=%d&port=%u", CAUSE_MS, ports[THREADS]);
    expect_cause(server, "/cpu?ms=40", "/cpu", REQUEST_PART_CPU, "", ticks);
    expect_cause(server, "/sleep?ms=40", "/sleep", REQUEST_PART_SLEEP, "nanosleep", ticks);
    expect_cause(server, "/lock?ms=40", "/lock", REQUEST_PART_SLEEP, "nanosleep in thread", ticks);
    expect_cause(server, "/pipe?ms=40", "/pipe", REQUEST_PART_SLEEP, "nanosleep in thread", ticks);
    expect_cause(server, downstream, "/downstream", REQUEST_PART_SLEEP, "nanosleep in thread", ticks);
    expect_cause(server, "/chunked?ms=20&n=2", "/chunked", REQUEST_PART_SLEEP, "2 times", ticks);
    assert_nothing_lost();
}

static void test_causes_in_threads(void **state)
{
    (void)state;
    need_method();
    expect_causes(THREADS);
}

static void test_causes_in_an_event_loop(void **state)
{
    (void)state;
    need_method();
    expect_causes(EPOLL);
}

static void test_causes_in_preforked_processes(void **state)
{
    (void)state;
    need_method();
    expect_causes(PREFORK);
}

/* Time of a sync is charged to its thread, unless interrupts took some of it. */
static void test_disk_wait_is_attributed(void **state)
{
    (void)state;
    need_method();
    const unsigned long long ticks = taken_ticks();
    send_request(THREADS, "GET", "/disk?ms=40");
    const struct request *r = await_requests(servers[THREADS], "/disk", 1);
    if (!total(r, REQUEST_PART_DISK)) {
        printf("/var/tmp is no disk: syncing it does not wait\n");
        skip();
    }
    if (taken_ticks() == ticks)
        assert_int_equal(total(r, REQUEST_PART_UNATTRIBUTED), 0);
}

static void test_thread_of_a_pool_is_followed(void **state)
{
    (void)state;
    need_method();
    expect_cause(POOL, "/sleep?ms=40", "/sleep", REQUEST_PART_SLEEP, "nanosleep", taken_ticks());
}

/* An event loop that waits for a slow client. */
static void test_late_reading_client_is_mostly_network(void **state)
{
    static char data[1 << 20];
    (void)state;
    need_method();
    int fd = connect_to(EPOLL);
    assert_int_equal(write(fd, "GET /large HTTP/1.1\r\n\r\n", 23), 23);
    await_full(EPOLL, fd);
    usleep(100000);
    shutdown(fd, SHUT_WR);
    while (recv(fd, data, sizeof(data), 0) > 0)
        ;
    close(fd);
    const struct request *r = await_requests(servers[EPOLL], "/large", 1);
    uint64_t for_nothing_ns = 0; /* less than an emulator leaves unattributed */
    for (size_t i = 0; i < r->part_count; i++)
        for_nothing_ns += strstr(r->parts[i].detail, "in the event loop, cause unknown") ? r->parts[i].duration_ns : 0;
    assert_true(for_nothing_ns <= total(r, REQUEST_PART_NETWORK) / 2);
}

static void test_fast_requests_are_attributed(void **state)
{
    (void)state;
    need_method();
    const unsigned long long ticks = taken_ticks();
    for (int i = 0; i < 10; i++)
        send_request(THREADS, "GET", "/ok");
    await_requests(servers[THREADS], "/ok", 10);
    for (size_t i = 0; i < watch.count; i++)
        assert_true(total(watch.requests[i], REQUEST_PART_UNATTRIBUTED) <= taken_ns(ticks));
}

#define BEST(name)                                                                                                     \
    {                                                                                                                  \
        #name, test_##name, watch_begin, watch_end, ON_METHOD(REQUEST_METHOD_BEST)                                     \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BEST(causes_in_threads),
        BEST(causes_in_an_event_loop),
        BEST(causes_in_preforked_processes),
        BEST(disk_wait_is_attributed),
        BEST(thread_of_a_pool_is_followed),
        BEST(late_reading_client_is_mostly_network),
        BEST(fast_requests_are_attributed),
    };
    if (geteuid() != 0) {
        printf("skipped: BPF needs root\n");
        return 77;
    }
    mkdir("/var", 0755); /* an initramfs has none */
    mkdir("/var/tmp", 01777);
    return cmocka_run_group_tests(tests, start_servers, stop_servers);
}
