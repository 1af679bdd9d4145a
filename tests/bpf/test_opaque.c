/* Traffic that the request programs cannot read, by listening port and program: bytes, connections, protocol. With each
 * attach method. The servers are children of this process, which is excluded as the agent is. */
#include "sources/request/request.h"
#include "sources/request/request_attach.h"

#include <linux/types.h>

#include "probes/request.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const command = "opaque-server";
static struct shared_tables *tables;
static void *source;
static char why_not[512];

static void open_source(int method)
{
    const struct task_filter filter = {0};
    struct attach_report report = {0};
    const struct shared_tables_options options = {.filter = &filter};
    assert_int_equal(shared_tables_new(&options, &tables), 0);
    const struct source_services services = {.tables = tables, .filter = &filter, .ring_bytes = 64 * 1024};
    source = NULL;
    if (request_source_open_on(&services, &report, method, false, &source) < 0)
        snprintf(why_not, sizeof(why_not), "%s", report.entries[0].fallback_reason);
}

static void close_source(void)
{
    if (source)
        source_request.free(source);
    shared_tables_free(tables);
}

static void need_source(void)
{
    if (source)
        return;
    printf("%s\n", why_not);
    skip();
}

/* ---- a connection, both ends of it ---- */

struct connection {
    int client, server;
    uint16_t port;
};

/* The cases leave the listener open: no later case gets a port that is counted already. */
static int listen_on(int family, uint16_t *ret_port)
{
    struct sockaddr_storage address = {.ss_family = (sa_family_t)family};
    socklen_t size = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (family == AF_INET)
        ((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        ((struct sockaddr_in6 *)&address)->sin6_addr = in6addr_loopback;
    const int fd = socket(family, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(((struct sockaddr_in *)&address)->sin_port); /* at the same place in both families */
    return fd;
}

static struct connection connect_to(int listener, uint16_t port)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof(address);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    struct connection c = {.client = socket(address.ss_family, SOCK_STREAM, 0), .port = port};
    assert_int_equal(connect(c.client, (struct sockaddr *)&address, size), 0);
    c.server = accept(listener, NULL, NULL);
    assert_true(c.server >= 0);
    return c;
}

static struct connection open_connection(void)
{
    struct connection c = {0};
    const int listener = listen_on(AF_INET, &c.port);
    return connect_to(listener, c.port);
}

static void close_connection(const struct connection *c)
{
    close(c->client);
    close(c->server);
}

static bool write_and_read(int from, int to, const void *data, size_t size)
{
    char copy[4096];
    return write(from, data, size) == (ssize_t)size && recv(to, copy, size, MSG_WAITALL) == (ssize_t)size;
}

/* By both system calls that can look at bytes and leave them unread. */
static bool write_peek_and_read(int from, int to, const void *data, size_t size)
{
    char copy[4096];
    struct iovec piece = {copy, sizeof(copy)};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    return write(from, data, size) == (ssize_t)size && recv(to, copy, size, MSG_PEEK | MSG_WAITALL) == (ssize_t)size &&
           recvmsg(to, &message, MSG_PEEK) == (ssize_t)size && read(to, copy, size) == (ssize_t)size;
}

/* Returns the process that did it. */
static pid_t transfer_by(bool (*exchange)(int, int, const void *, size_t), int from, int to, const void *data,
                         size_t size)
{
    const pid_t child = fork();
    int status;
    if (child == 0)
        _exit(!exchange(from, to, data, size));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return child;
}

#define ASK(c, text)    transfer_by(write_and_read, (c)->client, (c)->server, text, sizeof(text) - 1)
#define ANSWER(c, text) transfer_by(write_and_read, (c)->server, (c)->client, text, sizeof(text) - 1)

/* ---- counters ---- */

/* Only of this test's servers: the source sees every server of the node, and their ports may be the same in other
 * network namespaces. */
static bool find_counts(uint16_t port, struct request_opaque *ret, uint32_t *ret_place)
{
    uint64_t name;
    for (uint32_t place = 0; place < REQUEST_OPAQUE_MAX; place++)
        if (request_source_read_opaque(source, place, &name, ret) && ret->port == port &&
            strcmp(ret->comm, command) == 0) {
            *ret_place = place;
            return true;
        }
    return false;
}

static struct request_opaque counts_of(uint16_t port)
{
    struct request_opaque counts = {0};
    uint32_t place;
    if (!find_counts(port, &counts, &place))
        fail_msg("nothing was counted for port %u", port);
    return counts;
}

static bool is_counted(uint16_t port)
{
    struct request_opaque counts;
    uint32_t place;
    return find_counts(port, &counts, &place);
}

/* ---- cases ---- */

static void test_bytes_and_connections_are_counted(void **state)
{
    (void)state;
    need_source();
    uint16_t port;
    const int listener = listen_on(AF_INET, &port);
    struct connection a = connect_to(listener, port), b = connect_to(listener, port);
    ASK(&a, "*1\r\n$4\r\nPING\r\n");
    ANSWER(&a, "+PONG\r\n");
    ASK(&a, "more");
    const pid_t last = ASK(&b, "x");
    const struct request_opaque counts = counts_of(port);
    assert_int_equal(counts.received, 14 + 4 + 1);
    assert_int_equal(counts.sent, 7);
    assert_int_equal(counts.connections, 2);
    assert_int_equal(counts.reads, 3);
    assert_int_equal(counts.tls_reads, 0);
    assert_int_equal(counts.pid, last);
    assert_string_equal(counts.comm, command);
    close_connection(&a);
    close_connection(&b);
}

static void test_tls_is_recognized(void **state)
{
    (void)state;
    need_source();
    const struct connection c = open_connection();
    ASK(&c, "\x16\x03\x01\x00\x02hi"); /* the handshake */
    ASK(&c, "\x17\x03\x03\x00\x02hi"); /* data */
    ASK(&c, "\x18\x03\x03");           /* no type of record that servers read */
    ASK(&c, "\x17\x04\x03");           /* no version */
    ASK(&c, "\x17\x03");               /* too short to say */
    assert_int_equal(counts_of(c.port).tls_reads, 2);
    assert_int_equal(counts_of(c.port).reads, 5);
    close_connection(&c);
}

static void test_http2_is_not_counted(void **state)
{
    (void)state;
    need_source();
    const struct connection c = open_connection();
    ASK(&c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    ASK(&c, "\0\0\0\4\0\0\0\0\0");
    ANSWER(&c, "\0\0\0\4\1\0\0\0\0");
    assert_false(is_counted(c.port));
    close_connection(&c);
}

static void test_http1_is_not_counted(void **state)
{
    (void)state;
    need_source();
    const struct connection c = open_connection();
    ASK(&c, "POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n");
    ASK(&c, "body");
    ANSWER(&c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    ASK(&c, "GET / HTTP/1.1\r\n\r\n");
    assert_false(is_counted(c.port));
    close_connection(&c);
}

/* What a client receives is no traffic of a server here. */
static void test_clients_are_not_counted(void **state)
{
    (void)state;
    need_source();
    struct sockaddr_in own;
    socklen_t size = sizeof(own);
    const struct connection c = open_connection();
    ANSWER(&c, "220 ready");
    assert_int_equal(getsockname(c.client, (struct sockaddr *)&own, &size), 0);
    assert_false(is_counted(ntohs(own.sin_port)));
    assert_false(is_counted(c.port)); /* counted from the first read on */
    close_connection(&c);
}

static void test_peeked_bytes_count_once(void **state)
{
    (void)state;
    need_source();
    const struct connection c = open_connection();
    transfer_by(write_peek_and_read, c.client, c.server, "hello", 5);
    assert_int_equal(counts_of(c.port).received, 5);
    assert_int_equal(counts_of(c.port).reads, 1);
    close_connection(&c);
}

static void test_ipv6_is_counted(void **state)
{
    (void)state;
    need_source();
    uint16_t port;
    const int listener = listen_on(AF_INET6, &port);
    const struct connection c = connect_to(listener, port);
    ASK(&c, "hello");
    assert_int_equal(counts_of(port).received, 5);
    close_connection(&c);
}

static void test_excluded_process_is_not_counted(void **state)
{
    (void)state;
    need_source();
    const struct connection c = open_connection();
    assert_true(write_and_read(c.client, c.server, "hello", 5));
    assert_false(is_counted(c.port));
    close_connection(&c);
}

/* As with a connection that is older than the agent: its bytes count, but it is no new one. */
static void test_connection_from_before_is_not_new(void **state)
{
    (void)state;
    need_source();
    const struct connection c = open_connection();
    assert_true(write_and_read(c.client, c.server, "before", 6)); /* by this process: not seen */
    assert_false(is_counted(c.port));
    ASK(&c, "after it");
    assert_int_equal(counts_of(c.port).received, 8);
    assert_int_equal(counts_of(c.port).connections, 0);
    close_connection(&c);
}

static void test_forgotten_place_begins_at_zero(void **state)
{
    (void)state;
    need_source();
    const struct connection c = open_connection();
    struct request_opaque counts;
    uint32_t place = 0;
    ASK(&c, "hello");
    assert_true(find_counts(c.port, &counts, &place));
    request_source_forget_opaque(source, place);
    assert_false(is_counted(c.port));
    ASK(&c, "you");
    assert_int_equal(counts_of(c.port).received, 3);
    close_connection(&c);
}

/* The programs' table of claims, among the descriptors of this process. */
static int claims_fd(void)
{
    struct bpf_map_info info;
    for (int fd = 3; fd < 1024; fd++) {
        __u32 size = sizeof(info);
        if (bpf_obj_get_info_by_fd(fd, &info, &size) == 0 && strcmp(info.name, "claims") == 0)
            return fd;
    }
    fail_msg("no table of claims");
    return -1;
}

/* As if another thread had chosen the place and were about to publish the name there. */
static void test_entry_is_shared_while_another_thread_makes_it(void **state)
{
    (void)state;
    need_source();
    const struct connection c = open_connection();
    struct request_opaque counts;
    uint32_t place = 0;
    uint64_t name = 0, claims[2];
    const uint64_t overflow = request_source_opaque_overflow(source);
    ASK(&c, "hello");
    assert_true(find_counts(c.port, &counts, &place));
    assert_true(request_source_read_opaque(source, place, &name, &counts));
    request_source_forget_opaque(source, place);
    claims[0] = REQUEST_CLAIM_OPAQUE | place;
    claims[1] = REQUEST_CLAIM_OPAQUE_NAME | name;
    for (int i = 0; i < 2; i++)
        assert_int_equal(bpf_map_update_elem(claims_fd(), &claims[i], &(uint8_t){place % 4}, BPF_NOEXIST), 0);
    ASK(&c, "four");
    assert_int_equal(request_source_opaque_overflow(source), overflow);
    for (int i = 0; i < 2; i++)
        assert_int_equal(bpf_map_delete_elem(claims_fd(), &claims[i]), 0);
    ASK(&c, "more"); /* takes the same place, with the bytes that are there */
    assert_int_equal(counts_of(c.port).received, 8);
    close_connection(&c);
}

/* More ports than places: further ports are counted together. The last case, because it fills the table. */
static void test_overflow_is_counted(void **state)
{
    enum { PORTS = 2 * REQUEST_OPAQUE_MAX };
    (void)state;
    need_source();
    uint64_t name, sum = 0, before = 0, overflow = request_source_opaque_overflow(source);
    struct request_opaque counts;
    for (uint32_t place = 0; place < REQUEST_OPAQUE_MAX; place++)
        before += request_source_read_opaque(source, place, &name, &counts) ? counts.received : 0;
    int listeners[PORTS]; /* kept open: each has a port of its own */
    uint16_t ports[PORTS];
    for (int i = 0; i < PORTS; i++)
        listeners[i] = listen_on(AF_INET, &ports[i]);
    for (int i = 0; i < PORTS; i++) {
        struct connection c = connect_to(listeners[i], ports[i]);
        ASK(&c, "four");
        close_connection(&c);
    }
    for (uint32_t place = 0; place < REQUEST_OPAQUE_MAX; place++)
        sum += request_source_read_opaque(source, place, &name, &counts) ? counts.received : 0;
    overflow = request_source_opaque_overflow(source) - overflow;
    assert_true(overflow >= 4 * REQUEST_OPAQUE_MAX);
    assert_true(sum - before + overflow >= 4 * PORTS); /* and that of other servers of this machine */
    for (int i = 0; i < PORTS; i++)
        close(listeners[i]);
}

static int run(const char *name, int method)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_and_connections_are_counted),
        cmocka_unit_test(test_tls_is_recognized),
        cmocka_unit_test(test_http2_is_not_counted),
        cmocka_unit_test(test_http1_is_not_counted),
        cmocka_unit_test(test_clients_are_not_counted),
        cmocka_unit_test(test_peeked_bytes_count_once),
        cmocka_unit_test(test_ipv6_is_counted),
        cmocka_unit_test(test_excluded_process_is_not_counted),
        cmocka_unit_test(test_connection_from_before_is_not_new),
        cmocka_unit_test(test_forgotten_place_begins_at_zero),
        cmocka_unit_test(test_entry_is_shared_while_another_thread_makes_it),
        cmocka_unit_test(test_overflow_is_counted),
    };
    open_source(method);
    if (method == REQUEST_METHOD_BEST && !source) {
        printf("no method attaches: %s\n", why_not);
        return 1;
    }
    const int failed = _cmocka_run_group_tests(name, tests, sizeof(tests) / sizeof(tests[0]), NULL, NULL);
    close_source();
    return failed;
}

int main(void)
{
    if (geteuid() != 0) {
        printf("skipped: BPF needs root\n");
        return 77;
    }
    prctl(PR_SET_NAME, command);
    return run("best", REQUEST_METHOD_BEST) + run("function", 2) + run("function_hash", 3) + run("syscall", 4) +
           run("syscall_hash", 5);
}
