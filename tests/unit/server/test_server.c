/* Starts of the server that fail, and what it replies to clients without a token. The engine is this program, which
 * ends at once. */
#include "server/server.h"

#include "base/address.h"
#include "base/buf.h"
#include "base/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
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
    static const char *const names[] = {"tokens", "lock"};
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

static bool has_tokens(void)
{
    char path[100];
    snprintf(path, sizeof(path), "%s/tokens", directory);
    return access(path, F_OK) == 0;
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
    struct server_options options = {.directory = directory,
                                     .library = "/nonexistent",
                                     .otlp_address = used,
                                     .grpc_address = "127.0.0.1:0",
                                     .sql_address = "127.0.0.1:0",
                                     .keep_days = 1,
                                     .spool_bytes = 1 << 20,
                                     .memory_bytes = 1 << 30};
    struct server *server = NULL;
    assert_int_equal(server_start(&options, &server), -EADDRINUSE);
    assert_false(has_tokens());
    options.otlp_address = "0.0.0.0:0";
    options.certificate = (struct certificate_files){.chain_setting = "--tls-certificate",
                                                     .key_setting = "--tls-key",
                                                     .chain = "/nonexistent",
                                                     .key = "/nonexistent"};
    assert_true(server_start(&options, &server) < 0);
    assert_false(has_tokens());
    options.certificate = (struct certificate_files){0};
    assert_int_equal(server_start(&options, &server), 0);
    assert_non_null(server_first_token(server));
    assert_true(has_tokens());
    server_free(server);
}

static void expect_refusal(const struct server *s, enum server_service service, const char *text)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(server_endpoint(s, service).port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    _cleanup_buf_ struct buf reply = {0};
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    assert_int_equal(buf_read_fd(&reply, fd, 10000), 0);
    buf_putc(&reply, '\0');
    assert_non_null(strstr(reply.data, " 401 "));
    assert_non_null(strstr(reply.data, text));
}

static void test_refusal_names_the_scope(void **state)
{
    (void)state;
    const struct server_options options = {.directory = directory,
                                           .library = "/nonexistent",
                                           .otlp_address = "0.0.0.0:0",
                                           .grpc_address = "127.0.0.1:0",
                                           .sql_address = "0.0.0.0:0",
                                           .keep_days = 1,
                                           .spool_bytes = 1 << 20,
                                           .memory_bytes = 1 << 30};
    _cleanup_(server_freep) struct server *server = NULL;
    assert_int_equal(server_start(&options, &server), 0);
    expect_refusal(server, SERVER_OTLP_HTTP, "`sonde token new --scope write`");
    expect_refusal(server, SERVER_SQL, "`sonde token new --scope read`");
}

static void test_start_raises_the_limit_on_descriptors(void **state)
{
    (void)state;
    const struct server_options options = {.directory = directory,
                                           .library = "/nonexistent",
                                           .otlp_address = "127.0.0.1:0",
                                           .grpc_address = "127.0.0.1:0",
                                           .sql_address = "127.0.0.1:0",
                                           .keep_days = 1,
                                           .spool_bytes = 1 << 20,
                                           .memory_bytes = 1 << 30};
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
        cmocka_unit_test_setup_teardown(test_refusal_names_the_scope, start, stop),
        cmocka_unit_test_setup_teardown(test_start_raises_the_limit_on_descriptors, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
