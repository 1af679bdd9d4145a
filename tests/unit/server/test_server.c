/* Starts of the server that fail, and what it replies to clients without a token. The engine is this program, which
 * ends at once. */
#include "server/server.h"

#include "base/address.h"
#include "base/buf.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[64];

static int start(void **state)
{
    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    snprintf(directory, sizeof(directory), "/tmp/sonde-test-server-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int stop(void **state)
{
    static const char *const names[] = {"tokens", "first-token", "lock"};
    char path[100];
    (void)state;
    for (size_t i = 0; i < array_size(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
        unlink(path);
    }
    snprintf(path, sizeof(path), "%s/spool", directory);
    rmdir(path);
    return rmdir(directory);
}

static bool has_file(const char *name)
{
    char path[100];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return access(path, F_OK) == 0;
}

static struct server_options loopback_options(void)
{
    return (struct server_options){.directory = directory,
                                   .library = "/nonexistent",
                                   .otlp_address = "127.0.0.1:0",
                                   .grpc_address = "127.0.0.1:0",
                                   .sql_address = "127.0.0.1:0",
                                   .keep_days = 1,
                                   .spool_bytes = 1 << 20,
                                   .memory_bytes = 1 << 30};
}

/* The token of the first start is printed only when the server runs: a file that stays after a start that fails would
 * have a token that no client can know. */
static void test_failed_first_start_leaves_no_token_file(void **state)
{
    (void)state;
    union address any = {.v4 = {.sin_family = AF_INET}};
    _cleanup_close_ int fd = -1;
    assert_int_equal(address_listen(&any, sizeof(any.v4), &fd), 0);
    char used[32];
    snprintf(used, sizeof(used), "0.0.0.0:%u", ntohs(any.v4.sin_port));
    struct server_options options = loopback_options();
    options.otlp_address = used;
    struct server *server = NULL;
    assert_int_equal(server_start(&options, &server), -EADDRINUSE);
    assert_false(has_file("tokens"));
    options.otlp_address = "0.0.0.0:0";
    options.certificate = (struct certificate_files){.chain_setting = "--tls-certificate",
                                                     .key_setting = "--tls-key",
                                                     .chain = "/nonexistent",
                                                     .key = "/nonexistent"};
    assert_true(server_start(&options, &server) < 0);
    assert_false(has_file("tokens"));
    options.certificate = (struct certificate_files){0};
    assert_int_equal(server_start(&options, &server), 0);
    assert_non_null(server_first_token(server));
    assert_true(has_file("tokens"));
    assert_false(has_file("first-token"));
    server_free(server);
}

/* As it is printed, a token would be kept in a journal. */
static void test_first_token_in_a_file_is_of_its_owner(void **state)
{
    (void)state;
    struct server_options options = loopback_options();
    _cleanup_(server_freep) struct server *server = NULL;
    char path[100], text[200] = "";
    struct stat st;
    options.writes_first_token = true;
    options.otlp_address = "0.0.0.0:0";
    options.grpc_address = "nowhere";
    assert_int_equal(server_start(&options, &server), -EINVAL);
    assert_false(has_file("first-token"));
    options.grpc_address = "127.0.0.1:0";
    assert_int_equal(server_start(&options, &server), 0);
    snprintf(path, sizeof(path), "%s/first-token", directory);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    text[strcspn(text, "\n")] = '\0';
    assert_string_equal(text, server_first_token(server));
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

static int connect_to(const struct server *s, enum server_service service)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(server_endpoint(s, service).port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* Sends a request with a header of so many bytes, and reads the reply until the server closes the connection. */
static void expect_reply(int fd, size_t header_bytes, const char *status, const char *text)
{
    _cleanup_buf_ struct buf request = {0}, reply = {0};
    buf_puts(&request, "GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: ");
    while (header_bytes--)
        buf_putc(&request, 'x');
    buf_puts(&request, "\r\n\r\n");
    send(fd, request.data, request.size, MSG_NOSIGNAL); /* a refused one is not read to its end */
    buf_read_fd(&reply, fd, 10000);
    buf_putc(&reply, '\0');
    assert_non_null(strstr(reply.data, status));
    assert_non_null(strstr(reply.data, text));
}

static void test_refusal_names_the_scope(void **state)
{
    (void)state;
    struct server_options options = loopback_options();
    options.otlp_address = options.sql_address = "0.0.0.0:0";
    _cleanup_(server_freep) struct server *server = NULL;
    assert_int_equal(server_start(&options, &server), 0);
    _cleanup_close_ int otlp = connect_to(server, SERVER_OTLP_HTTP), sql = connect_to(server, SERVER_SQL);
    expect_reply(otlp, 1, " 401 ", "`sonde token new --scope write`");
    expect_reply(sql, 1, " 401 ", "`sonde token new --scope read`");
}

/* A query may be in the URL, but what sends OTLP has no long headers. */
static void test_headers_of_otlp_are_smaller(void **state)
{
    (void)state;
    struct server_options options = loopback_options();
    options.otlp_address = "0.0.0.0:0"; /* whose requests would be refused without a token */
    _cleanup_(server_freep) struct server *server = NULL;
    assert_int_equal(server_start(&options, &server), 0);
    _cleanup_close_ int otlp = connect_to(server, SERVER_OTLP_HTTP), sql = connect_to(server, SERVER_SQL);
    expect_reply(otlp, 80000, " 431 ", "");
    expect_reply(sql, 80000, " 403 ", ""); /* another port in Host */
}

/* An address with all its connections that opens another one loses its oldest idle one. */
static void test_new_connections_replace_idle_ones(void **state)
{
    enum { CONNECTIONS = 128 };
    (void)state;
    struct server_options options = loopback_options();
    options.otlp_address = options.grpc_address = "0.0.0.0:0";
    _cleanup_(server_freep) struct server *server = NULL;
    assert_int_equal(server_start(&options, &server), 0);
    for (enum server_service service = SERVER_OTLP_GRPC; service <= SERVER_OTLP_HTTP; service++) {
        int fds[CONNECTIONS + 1];
        _cleanup_buf_ struct buf rest = {0};
        for (size_t i = 0; i < array_size(fds); i++)
            fds[i] = connect_to(server, service);
        assert_int_equal(buf_read_fd(&rest, fds[0], 10000), 0); /* to its end */
        if (service == SERVER_OTLP_HTTP)
            expect_reply(fds[CONNECTIONS], 1, " 401 ", "");
        for (size_t i = 0; i < array_size(fds); i++)
            close(fds[i]);
    }
}

static void test_start_raises_the_limit_on_descriptors(void **state)
{
    (void)state;
    const struct server_options options = loopback_options();
    _cleanup_(server_freep) struct server *server = NULL;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 256;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(server_start(&options, &server), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(limit.rlim_cur, limit.rlim_max);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "server") == 0)
        return 1; /* the engine */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_failed_first_start_leaves_no_token_file, start, stop),
        cmocka_unit_test_setup_teardown(test_first_token_in_a_file_is_of_its_owner, start, stop),
        cmocka_unit_test_setup_teardown(test_refusal_names_the_scope, start, stop),
        cmocka_unit_test_setup_teardown(test_headers_of_otlp_are_smaller, start, stop),
        cmocka_unit_test_setup_teardown(test_new_connections_replace_idle_ones, start, stop),
        cmocka_unit_test_setup_teardown(test_start_raises_the_limit_on_descriptors, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
