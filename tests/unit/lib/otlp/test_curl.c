/* Posts that get no answer: the same message for the same reason, whatever the duration; and which processes share the
 * connection. */
#include "otlp/transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

extern const struct otlp_transport OTLP_TRANSPORT_SYMBOL;

/* A bound socket with its own port. A connection to it is refused unless the socket listens, and is never answered. */
static int bind_socket(int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
                getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

struct seen {
    int port, connections, inherited;
};

/* Called during a post: ends it once its connection has been checked. */
static bool check_connection(void *argument)
{
    struct seen *seen = argument;
    for (int fd = 0; fd < 256; fd++) {
        struct sockaddr_in peer;
        socklen_t size = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sin_family == AF_INET &&
            ntohs(peer.sin_port) == seen->port) {
            seen->connections++;
            seen->inherited += (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0;
        }
    }
    return seen->connections > 0;
}

static int post(int port, uint32_t timeout_ms, struct seen *seen, struct otlp_answer *ret_answer)
{
    const struct otlp_transport *t = &OTLP_TRANSPORT_SYMBOL;
    char url[64], why[OTLP_TRANSPORT_WHY_SIZE] = "";
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/v1/traces", port);
    const struct otlp_transport_options options = {.url = url,
                                                   .content_type = "application/json",
                                                   .headers = "",
                                                   .certificate = "",
                                                   .client_certificate = "",
                                                   .client_key = "",
                                                   .user_agent = "test",
                                                   .timeout_ms = timeout_ms,
                                                   .is_overdue = seen ? check_connection : NULL,
                                                   .argument = seen};
    void *connection;
    assert_int_equal(t->open(&options, &connection, why, sizeof(why)), 0);
    *ret_answer = (struct otlp_answer){0};
    int r = t->post(connection, "{}", 2, ret_answer);
    t->close(connection);
    return r;
}

static void test_connection_refused(void **state)
{
    (void)state;
    struct otlp_answer answer;
    int port, fd = bind_socket(&port);
    char wanted[64];
    snprintf(wanted, sizeof(wanted), "Failed to connect to 127.0.0.1 port %d", port);
    assert_int_equal(post(port, 60000, NULL, &answer), -ECONNREFUSED);
    assert_memory_equal(answer.why, wanted, strlen(wanted));
    assert_null(strstr(answer.why, "after"));
    assert_non_null(strstr(answer.why, "connect to server")); /* the text after the duration is present */
    close(fd);
}

static void test_receiver_does_not_answer(void **state)
{
    (void)state;
    struct otlp_answer answer;
    int port, fd = bind_socket(&port);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(post(port, 200, NULL, &answer), -ETIMEDOUT);
    if (strcmp(answer.why, "Connection timed out") != 0) /* on a loaded machine it may time out first */
        assert_string_equal(answer.why, "Operation timed out with 0 bytes received");
    close(fd);
}

static void test_connections_are_closed_on_exec(void **state)
{
    (void)state;
    struct otlp_answer answer;
    struct seen seen = {0};
    int fd = bind_socket(&seen.port);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(post(seen.port, 60000, &seen, &answer), -ECANCELED);
    assert_int_equal(seen.connections, 1);
    assert_int_equal(seen.inherited, 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connection_refused),
        cmocka_unit_test(test_receiver_does_not_answer),
        cmocka_unit_test(test_connections_are_closed_on_exec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
