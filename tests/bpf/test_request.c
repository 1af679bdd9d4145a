/* Requests from the socket to the diagnosis: servers whose requests are slow for a known cause, and anything HTTP/1
 * allows a client to do. Asserts what holds under any load: the components sum to the duration, a cause is found with
 * its kind and detail, and every request is counted once. All cases run with the best attach method; every other method
 * is tested with one complete record per kind of server. With the argument "all", every case runs with every method.
 * bpf-statistical/request-causes asserts the durations of the causes. */
#include "request_counts.h"
#include "requests.h"
#include "threads.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Every field of a record. Its cause is left to other cases: once in some hundred runs with method `syscall`, the sleep
 * was not found, for a reason that is not known. */
static void expect_record(int server)
{
    static const char text[] = "POST /sleep?ms=40 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcd",
                      reply[] = "HTTP/1.1 200 Whatever\r\nContent-Length: 3\r\n\r\nok\n";
    int fd = connect_to(server);
    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    expect_text(fd, "ok\n", 1);
    close(fd);
    const struct request *r = await_requests(servers[server], "/sleep", 1);
    assert_string_equal(r->method, "POST");
    assert_int_equal(r->status, 200);
    assert_int_equal(r->bytes_in, sizeof(text) - 1);
    assert_int_equal(r->bytes_out, sizeof(reply) - 1);
    assert_true(r->duration_ns >= CAUSE_MS * 1000000ull);
    assert_nothing_lost();
}

static void test_record_is_complete(void **state)
{
    (void)state;
    need_method();
    expect_record(THREADS);
    expect_record(EPOLL);
}

/* The last request of the route has a component of this kind and detail. */
static void expect_cause(int server, const char *target, const char *route, enum request_part_kind kind,
                         const char *detail)
{
    send_request(server, "GET", target);
    const struct request *r = await_requests(server == PREFORK ? 0 : servers[server], route, 1);
    if (!find_part(r, kind, detail))
        fail_msg("%s: no component %s with detail \"%s\"; cause: %s", r->route, request_part_name(kind), detail,
                 r->cause);
}

/* A thread that the request's thread has created holds the lock and sleeps: so the path leads into it, or names it as
 * the holder. */
static void expect_lock(int server)
{
    send_request(server, "GET", "/lock?ms=100");
    const struct request *r = await_requests(server == PREFORK ? 0 : servers[server], "/lock", 1);
    if (!find_part(r, REQUEST_PART_SLEEP, "nanosleep in thread") && !find_part(r, REQUEST_PART_LOCK, "holder slept"))
        fail_msg("the holder of the lock is not named; cause: %s", r->cause);
}

/* The path leads into the service only if the recorder has the wake-up of the waiting thread by the service's thread;
 * else the wait names the call. */
static void expect_downstream(int server, const char *target)
{
    send_request(server, "GET", target);
    const struct request *r = await_requests(server == PREFORK ? 0 : servers[server], "/downstream", 1);
    if (!find_part(r, REQUEST_PART_SLEEP, "nanosleep in thread") && !find_part(r, REQUEST_PART_DOWNSTREAM, "HTTP GET"))
        fail_msg("the service is not named; cause: %s", r->cause);
}

/* Long enough that no thread reaches its wait late. */
static void expect_causes(int server)
{
    char downstream[64];
    snprintf(downstream, sizeof(downstream), "/downstream?ms=100&port=%u", ports[THREADS]);
    expect_cause(server, "/cpu?ms=40", "/cpu", REQUEST_PART_CPU, "");
    expect_cause(server, "/sleep?ms=100", "/sleep", REQUEST_PART_SLEEP, "nanosleep");
    expect_lock(server);
    expect_cause(server, "/pipe?ms=100", "/pipe", REQUEST_PART_SLEEP, "nanosleep in thread");
    if (strstr(watch.limitation, "begin when they are read")) /* arrivals are not recorded */
        expect_downstream(server, downstream);
    else
        expect_cause(server, downstream, "/downstream", REQUEST_PART_SLEEP, "nanosleep in thread");
    expect_cause(server, "/chunked?ms=50&n=2", "/chunked", REQUEST_PART_SLEEP, "nanosleep");
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

static void test_disk_wait_is_a_component(void **state)
{
    (void)state;
    need_method();
    send_request(THREADS, "GET", "/disk?ms=40");
    const struct request *r = await_requests(servers[THREADS], "/disk", 1);
    if (!total(r, REQUEST_PART_DISK)) {
        printf("/var/tmp is no disk: syncing it does not wait\n");
        skip();
    }
    if (!find_part(r, REQUEST_PART_DISK, "fsync of written-"))
        fail_msg("no component names the file; cause: %s", r->cause);
}

/* One thread reads, another works and replies. */
static void test_thread_pool_request_is_explained(void **state)
{
    (void)state;
    need_method();
    expect_cause(POOL, "/sleep?ms=40", "/sleep", REQUEST_PART_SLEEP, "nanosleep");
}

/* A record may be emitted before the reply is whole; a later one has the rest. */
static const struct request *await_bytes(int server, uint64_t bytes)
{
    uint64_t end = clock_monotonic_ns() + PATIENCE_NS;
    const struct request *r = await_requests(servers[server], "/handed", 1);
    while (r->bytes_out < bytes && clock_monotonic_ns() < end) {
        check();
        r = await_requests(servers[server], "/handed", 1);
    }
    return r;
}

/* A thread that handled no request sends the rest of a reply, as in nginx with "aio threads". */
static void test_reply_sent_by_two_threads(void **state)
{
    (void)state;
    need_method();
    static const int ways[] = {THREADS, EPOLL};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        int fd = connect_to(ways[i]);
        assert_int_equal(write(fd, "GET /handed?ms=40 HTTP/1.1\r\n\r\n", 30), 30);
        expect_text(fd, "ok\n", 1);
        close(fd); /* whether or not the sender has returned from its system call */
        const uint64_t bytes = strlen("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n");
        const struct request *r = await_bytes(ways[i], bytes);
        assert_int_equal(r->bytes_out, bytes);
        assert_true(r->duration_ns >= CAUSE_MS * 1000000ull);
        assert_non_null(find_part(r, REQUEST_PART_SLEEP, "nanosleep"));
    }
    assert_nothing_lost();
}

/* The connection is reset during a send: the bytes and the time of that send still belong to the reply. */
static void test_aborted_reply(void **state)
{
    (void)state;
    need_method();
    static const int ways[] = {THREADS, EPOLL};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        int fd = connect_to(ways[i]);
        assert_int_equal(write(fd, "GET /handed?ms=1&bytes=33554432 HTTP/1.1\r\n\r\n", 44), 44);
        await_full(ways[i], fd);
        uint64_t start_ns = clock_monotonic_ns();
        poll(NULL, 0, CAUSE_MS);
        uint64_t waited_ns = clock_monotonic_ns() - start_ns;
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
        close(fd);
        const struct request *r = await_bytes(ways[i], 65536);
        assert_true(r->bytes_out >= 65536 && r->bytes_out < 33554432);
        assert_true(r->duration_ns >= waited_ns);
    }
    assert_nothing_lost();
}

/* Closed by another thread than the one that sends, which continues. */
static void test_close_during_send_by_another_thread(void **state)
{
    (void)state;
    need_method();
    static char data[1 << 20];
    enum { BODY = 8 << 20 };
    int fd = connect_to(THREADS);
    assert_int_equal(write(fd, "GET /handed?ms=1&bytes=8388608&close=1 HTTP/1.1\r\n\r\n", 51), 51);
    await_full(THREADS, fd);
    const uint64_t start_ns = clock_monotonic_ns();
    poll(NULL, 0, CAUSE_MS);
    const uint64_t waited_ns = clock_monotonic_ns() - start_ns;
    while (recv(fd, data, sizeof(data), 0) > 0)
        ;
    close(fd);
    const struct request *r = await_bytes(THREADS, BODY);
    assert_int_equal(r->bytes_out, BODY + strlen("HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n"));
    assert_true(r->duration_ns >= waited_ns);
    assert_nothing_lost();
}

/* The machine's doing: interrupts and, by other processes, the run queue. */
static bool is_of_the_machine(const struct request_part *part)
{
    static const bool kinds[REQUEST_PART_COUNT] = {
        [REQUEST_PART_CPU] = true,  [REQUEST_PART_RUN_QUEUE] = true, [REQUEST_PART_STEAL] = true,
        [REQUEST_PART_DISK] = true, [REQUEST_PART_UNREAD] = true,    [REQUEST_PART_UNATTRIBUTED] = true};
    return kinds[part->kind] || strstr(part->detail, "interrupts");
}

static void test_fast_requests_have_no_false_cause(void **state)
{
    (void)state;
    need_method();
    for (int i = 0; i < 10; i++)
        send_request(THREADS, "GET", "/ok");
    await_requests(servers[THREADS], "/ok", 10);
    for (size_t i = 0; i < watch.count; i++) {
        const struct request *r = watch.requests[i];
        for (size_t k = 0; k < r->part_count; k++)
            if (!is_of_the_machine(&r->parts[k]))
                fail_msg("%s: %llu of %llu ns are %s: %s; cause: %s", r->route,
                         (unsigned long long)r->parts[k].duration_ns, (unsigned long long)r->duration_ns,
                         request_part_name(r->parts[k].kind), r->parts[k].detail, r->cause);
    }
    assert_nothing_lost();
}

/* Sends a request to a server that cannot run for a while; negative `fd`: on a new connection. */
static void expect_unread(int server, int fd)
{
    kill(servers[server], SIGSTOP);
    threads_await_stopped(servers[server]);
    fd = fd < 0 ? connect_to(server) : fd;
    assert_int_equal(write(fd, "GET /late HTTP/1.1\r\n\r\n", 22), 22);
    poll(NULL, 0, 2 * CAUSE_MS);
    kill(servers[server], SIGCONT);
    expect_text(fd, "\r\n\r\n", 1);
    close(fd);
    const struct request *r = await_requests(servers[server], "/late", 1);
    assert_true(total(r, REQUEST_PART_UNREAD) >= CAUSE_MS * 1000000ull);
}

/* On a connection that had a request before, and on one that the server has not even accepted. */
static void test_time_until_the_read_is_unread(void **state)
{
    (void)state;
    need_method();
    need_arrivals();
    int fd = connect_to(EPOLL);
    assert_int_equal(write(fd, "GET /ok HTTP/1.1\r\n\r\n", 20), 20);
    expect_text(fd, "ok\n", 1);
    expect_unread(EPOLL, fd);
    expect_unread(THREADS, -1);
    assert_nothing_lost();
}

static void test_keep_alive_idle_time_is_not_counted(void **state)
{
    (void)state;
    need_method();
    int fd = connect_to(THREADS);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(write(fd, "GET /ok HTTP/1.1\r\n\r\n", 20), 20);
        expect_text(fd, "ok\n", 1);
        poll(NULL, 0, CAUSE_MS);
    }
    /* While the connection is open: a request is recorded as soon as its thread waits for the next. */
    await_requests(servers[THREADS], "/ok", 5);
    for (size_t i = 0; i < watch.count; i++)
        assert_int_equal(total(watch.requests[i], REQUEST_PART_NETWORK), 0);
    close(fd);
}

static void test_slow_client_is_network(void **state)
{
    (void)state;
    need_method();
    int fd = connect_to(THREADS);
    assert_int_equal(write(fd, "POST /ok HTTP/1.1\r\nContent-Length: 4\r\n\r\nab", 42), 42);
    threads_await_all_blocked(servers[THREADS]); /* it has read what arrived, and waits for the rest */
    poll(NULL, 0, CAUSE_MS);
    assert_int_equal(write(fd, "cd", 2), 2);
    expect_text(fd, "ok\n", 1);
    close(fd);
    const struct request *r = await_requests(servers[THREADS], "/ok", 1);
    assert_string_equal(r->method, "POST");
    if (!total(r, REQUEST_PART_NETWORK))
        fail_msg("the client's time is missing; cause: %s", r->cause);
    assert_int_equal(r->bytes_in, 44);
}

/* The event loop never meets a full buffer: it waits until the socket is writable. */
static void test_late_reading_client_is_network(void **state)
{
    (void)state;
    need_method();
    static char data[1 << 20];
    int fd = connect_to(EPOLL);
    assert_int_equal(write(fd, "GET /large HTTP/1.1\r\n\r\n", 23), 23);
    await_full(EPOLL, fd);
    shutdown(fd, SHUT_WR);
    while (recv(fd, data, sizeof(data), 0) > 0)
        ;
    close(fd);
    assert_true(total(await_requests(servers[EPOLL], "/large", 1), REQUEST_PART_NETWORK) > 0);
}

static void test_fragmented_request(void **state)
{
    (void)state;
    need_method();
    const char *text = "GET /ok?secret=1 HTTP/1.1\r\nHost: a\r\n\r\n";
    int fd = connect_to(EPOLL), one = 1;
    setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof(one));
    for (size_t i = 0; i < strlen(text); i++) {
        assert_int_equal(write(fd, text + i, 1), 1);
        poll(NULL, 0, 1);
    }
    expect_text(fd, "ok\n", 1);
    close(fd);
    const struct request *r = await_requests(servers[EPOLL], "/ok", 1);
    assert_string_equal(r->method, "GET");
    assert_int_equal(r->bytes_in, strlen(text));
    assert_int_equal(r->status, 200);
}

static void test_pipelined_requests(void **state)
{
    (void)state;
    need_method();
    const char *text = "GET /ok HTTP/1.1\r\n\r\nGET /ok HTTP/1.1\r\n\r\nGET /ok HTTP/1.1\r\n\r\n";
    int fd = connect_to(THREADS);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    expect_text(fd, "ok\n", 3);
    close(fd);
    await_requests(servers[THREADS], "/ok", 1);
    await_requests(servers[THREADS], "{pipelined}", 2);
}

static void test_large_body_and_100_continue(void **state)
{
    (void)state;
    need_method();
    enum { BODY = 1572864 };
    static char body[BODY];
    char head[256];
    int fd = connect_to(THREADS);
    int n = snprintf(head, sizeof(head),
                     "PUT /items/4711/x HTTP/1.1\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", BODY);
    assert_int_equal(write(fd, head, (size_t)n), n);
    expect_text(fd, "100 Continue\r\n\r\n", 1);
    for (size_t sent = 0; sent < BODY;) {
        ssize_t now = write(fd, body + sent, BODY - sent);
        assert_true(now > 0);
        sent += (size_t)now;
    }
    expect_text(fd, "ok\n", 1);
    close(fd);
    const struct request *r = await_requests(servers[THREADS], "/items/{id}/x", 1);
    assert_string_equal(r->method, "PUT");
    assert_int_equal(r->status, 200);
    assert_int_equal(r->bytes_in, BODY + n);
}

static void test_head_method_errors_and_http_1_0(void **state)
{
    (void)state;
    need_method();
    send_request(THREADS, "HEAD", "/ok");
    assert_string_equal(await_requests(servers[THREADS], "/ok", 1)->method, "HEAD");
    static const char *const methods[] = {"COPY",      "LOCK",  "MKCOL", "MOVE",   "OPTIONS", "PATCH", "PROPFIND",
                                          "PROPPATCH", "PURGE", "QUERY", "REPORT", "SEARCH",  "TRACE", "UNLOCK"};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        send_request(EPOLL, methods[i], "/ok");
        assert_string_equal(await_requests(servers[EPOLL], "/ok", i + 1)->method, methods[i]);
    }
    send_request(THREADS, "DELETE", "/status?code=503");
    assert_int_equal(await_requests(servers[THREADS], "/status", 1)->status, 503);
    int fd = connect_to(PREFORK);
    assert_int_equal(write(fd, "GET /ok HTTP/1.0\r\n\r\n", 20), 20);
    expect_text(fd, "ok\n", 1);
    close(fd);
    await_requests(0, "/ok", 2 + sizeof(methods) / sizeof(methods[0]));
    assert_nothing_lost();
}

static void test_request_without_reply(void **state)
{
    (void)state;
    need_method();
    send_request(THREADS, "GET", "/hangup");
    const struct request *r = await_requests(servers[THREADS], "/hangup", 1);
    assert_int_equal(r->status, 0);
    assert_int_equal(r->bytes_out, 0);
    assert_non_null(strstr(r->cause, "no reply"));
    assert_nothing_lost();
}

/* In the middle of a sleep: the time it was stopped is a component of its own. */
static void test_stopped_server_is_a_component(void **state)
{
    (void)state;
    need_method();
    int fd = connect_to(THREADS);
    assert_int_equal(write(fd, "GET /sleep?ms=300 HTTP/1.1\r\n\r\n", 30), 30);
    const pid_t thread = threads_await_one_blocked(servers[THREADS], SYS_clock_nanosleep);
    kill(servers[THREADS], SIGSTOP);
    threads_await_stopped(thread);
    poll(NULL, 0, 2 * CAUSE_MS);
    kill(servers[THREADS], SIGCONT);
    expect_text(fd, "ok\n", 1);
    close(fd);
    const struct request_part *stopped =
        find_part(await_requests(servers[THREADS], "/sleep", 1), REQUEST_PART_OTHER, "stopped");
    assert_non_null(stopped);
    assert_true(stopped->duration_ns >= CAUSE_MS * 1000000ull);
}

static void test_data_after_upgrade_is_no_reply(void **state)
{
    (void)state;
    need_method();
    static const char reply[] = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    send_request(THREADS, "GET", "/upgrade?ms=40");
    const struct request *r = await_requests(servers[THREADS], "/upgrade", 1);
    assert_int_equal(r->status, 101);
    assert_int_equal(r->bytes_out, strlen(reply));
    assert_int_equal(total(r, REQUEST_PART_SLEEP), 0);
}

/* Data that only resembles HTTP, followed by a request that shows that it was processed. */
static void test_non_http_is_ignored(void **state)
{
    (void)state;
    need_method();
    static const char *const texts[] = {"GET key\r\n", "POST", "GETTY /x HTTP/1.1\r\n\r\n", "HEAD\r\n\r\n", "\0\1\2\3"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        int fd = connect_to(THREADS);
        size_t size = strlen(texts[i]) ? strlen(texts[i]) : 4;
        assert_int_equal(write(fd, texts[i], size), size);
        shutdown(fd, SHUT_WR);
        char byte;
        while (recv(fd, &byte, 1, 0) > 0)
            ;
        close(fd);
    }
    send_request(THREADS, "GET", "/ok");
    await_requests(servers[THREADS], "/ok", 1);
    assert_int_equal(watch.count, 1);
    assert_nothing_lost();
}

/* Anything that a server answers with HTTP is a request. */
static void test_malformed_request_line_with_a_reply(void **state)
{
    (void)state;
    need_method();
    int fd = connect_to(THREADS);
    /* Slower by more than an eighth than the requests of earlier tests, which may fall into the same second: a fast
     * one may only be counted. The same holds for the slow requests below. */
    static const char text[] = "GET /sleep?ms=400 and more\r\n\r\n";
    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    expect_text(fd, "ok\n", 1);
    close(fd);
    assert_int_equal(await_requests(servers[THREADS], "/sleep", 1)->status, 200);
}

#define ON(method, name, test)                                                                                         \
    {                                                                                                                  \
        #name "_" #method, test, watch_begin, watch_end, ON_METHOD(method_##method)                                    \
    }
#define CASES(method)                                                                                                  \
    ON(method, record_is_complete, test_record_is_complete), ON(method, causes_in_threads, test_causes_in_threads),    \
        ON(method, causes_in_an_event_loop, test_causes_in_an_event_loop),                                             \
        ON(method, causes_in_preforked_processes, test_causes_in_preforked_processes),                                 \
        ON(method, disk_wait_is_a_component, test_disk_wait_is_a_component),                                           \
        ON(method, thread_pool_request_is_explained, test_thread_pool_request_is_explained),                           \
        ON(method, reply_sent_by_two_threads, test_reply_sent_by_two_threads),                                         \
        ON(method, aborted_reply, test_aborted_reply),                                                                 \
        ON(method, close_during_send_by_another_thread, test_close_during_send_by_another_thread),                     \
        ON(method, fast_requests_have_no_false_cause, test_fast_requests_have_no_false_cause),                         \
        ON(method, time_until_the_read_is_unread, test_time_until_the_read_is_unread),                                 \
        ON(method, keep_alive_idle_time_is_not_counted, test_keep_alive_idle_time_is_not_counted),                     \
        ON(method, slow_client_is_network, test_slow_client_is_network),                                               \
        ON(method, late_reading_client_is_network, test_late_reading_client_is_network),                               \
        ON(method, fragmented_request, test_fragmented_request),                                                       \
        ON(method, pipelined_requests, test_pipelined_requests),                                                       \
        ON(method, large_body_and_100_continue, test_large_body_and_100_continue),                                     \
        ON(method, head_method_errors_and_http_1_0, test_head_method_errors_and_http_1_0),                             \
        ON(method, stopped_server_is_a_component, test_stopped_server_is_a_component),                                 \
        ON(method, data_after_upgrade_is_no_reply, test_data_after_upgrade_is_no_reply),                               \
        ON(method, request_without_reply, test_request_without_reply),                                                 \
        ON(method, non_http_is_ignored, test_non_http_is_ignored),                                                     \
        ON(method, malformed_request_line_with_a_reply, test_malformed_request_line_with_a_reply),                     \
        ON(method, every_request_is_counted, test_every_request_is_counted),                                           \
        ON(method, sample_stands_for_all_requests, test_sample_stands_for_all_requests),                               \
        ON(method, reused_pid_is_another_process, test_reused_pid_is_another_process)

enum {
    method_best = REQUEST_METHOD_BEST,
    method_socket = 0,
    method_function = 2,
    method_function_hash = 3,
    method_syscall = 4,
    method_syscall_hash = 5
};

static void test_some_method_attaches(void **state)
{
    (void)state;
    if (!watch.self)
        fail_msg("%s", watch.why_not);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest best[] = {
        {"some_method_attaches", test_some_method_attaches, watch_begin, watch_end, ON_METHOD(REQUEST_METHOD_BEST)},
        CASES(best),
        ON(socket, record_is_complete, test_record_is_complete),
        ON(function, record_is_complete, test_record_is_complete),
        ON(function_hash, record_is_complete, test_record_is_complete),
        ON(syscall, record_is_complete, test_record_is_complete),
        ON(syscall_hash, record_is_complete, test_record_is_complete),
    };
    const struct CMUnitTest all[] = {CASES(socket), CASES(function), CASES(function_hash), CASES(syscall),
                                     CASES(syscall_hash)};
    if (geteuid() != 0) {
        printf("skipped: BPF needs root\n");
        return 77;
    }
    mkdir("/var", 0755); /* an initramfs has none */
    mkdir("/var/tmp", 01777);
    if (argc > 1 && strcmp(argv[1], "all") == 0)
        return cmocka_run_group_tests(all, start_servers, stop_servers);
    if (argc > 1) /* "causes_*" */
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(best, start_servers, stop_servers);
}
