/* The counts of calls that servers make of other services: by caller, called address and kind. */
#include "../connection.h"
#include "recording.h"

#include "model/service_call.h"
#include "sources/request/request.h"

#include "probes/recorder/client_call.h"
#include "probes/request.h"
#include "probes/request/service_call.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define RECORDS    8192
#define DELAY_MS   50
#define TEXT(text) text, sizeof(text) - 1

/* Calls, their replies, and whether those are errors. */
static const struct exchange {
    const char *call;
    size_t call_bytes;
    const char *reply; /* "": the connection ends */
    size_t reply_bytes;
    enum client_protocol protocol;
    enum client_word word;
    bool has_failed;
} exchanges[] = {
    {TEXT("*1\r\n$4\r\nping\r\n"), TEXT("+PONG\r\n"), CLIENT_REDIS, CLIENT_PING, false},
    {TEXT("*1\r\n$4\r\nping\r\n"), TEXT("-ERR no\r\n"), CLIENT_REDIS, CLIENT_PING, true},
    {TEXT("Q\0\0\0\x0dselect 1\0"), TEXT("T\0\0\0\x06\0\0D"), CLIENT_POSTGRESQL, CLIENT_SELECT, false},
    {TEXT("Q\0\0\0\x0dinsert 1\0"), TEXT("E\0\0\0\x06no"), CLIENT_POSTGRESQL, CLIENT_INSERT, true},
    {TEXT("P\0\0\0\x15\0UPDATE tt set\0\0\0B\0\0\0\x0c\0\0\0\0\0\0\0\0"),
     TEXT("1\0\0\0\4"
          "2\0\0\0\4"
          "n\0\0\0\4"
          "E\0\0\0\6no"),
     CLIENT_POSTGRESQL, CLIENT_UPDATE, true},
    {TEXT("P\0\0\0\x15\0DELETE from t\0\0\0B\0\0\0\x0c\0\0\0\0\0\0\0\0"),
     TEXT("1\0\0\0\4"
          "2\0\0\0\4"
          "C\0\0\0\4"),
     CLIENT_POSTGRESQL, CLIENT_DELETE, false},
    {TEXT("\x09\0\0\0\x03SELECT 1"), TEXT("\1\0\0\1\1"), CLIENT_MYSQL, CLIENT_SELECT, false},
    {TEXT("\x09\0\0\0\x03INSERT 1"), TEXT("\5\0\0\1\xffno"), CLIENT_MYSQL, CLIENT_INSERT, true},
    {TEXT("GET /a HTTP/1.1\r\n\r\n"), TEXT("HTTP/1.1 404 Not Found\r\n\r\n"), CLIENT_HTTP, CLIENT_GET, false},
    {TEXT("PUT /a HTTP/1.1\r\n\r\n"), TEXT("HTTP/1.1 503 No\r\n\r\n"), CLIENT_HTTP, CLIENT_PUT, true},
};

static bool send_calls(int fd)
{
    char text[128];
    for (size_t i = 0; i < array_size(exchanges); i++)
        if (send(fd, exchanges[i].call, exchanges[i].call_bytes, 0) < 0 || recv(fd, text, sizeof(text), 0) <= 0)
            return false;
    /* Two sends before a reply are one call; so is a call whose connection ends. */
    return send(fd, TEXT("*2\r\n$3\r\nGET\r\n"), 0) > 0 && send(fd, TEXT("*2\r\n$3\r\nGET\r\n"), 0) > 0 &&
           recv(fd, text, sizeof(text), 0) > 0 && send(fd, TEXT("*2\r\n$3\r\nDEL\r\n"), 0) > 0 &&
           recv(fd, text, sizeof(text), 0) == 0;
}

static bool receive_whole(int fd, size_t bytes)
{
    char text[128];
    return recv(fd, text, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

static bool reply_to_calls(int fd)
{
    prctl(PR_SET_NAME, "called");
    for (size_t i = 0; i < array_size(exchanges); i++)
        if (!receive_whole(fd, exchanges[i].call_bytes) ||
            send(fd, exchanges[i].reply, exchanges[i].reply_bytes, 0) < 0)
            return false;
    const bool has_come = receive_whole(fd, 26);
    usleep(DELAY_MS * 1000);
    return has_come && send(fd, TEXT("$-1\r\n"), 0) > 0 && receive_whole(fd, 13);
}

/* A server of requests asks, another process replies. Returns the one that asks. */
static pid_t exchange_calls(const int ends[2], pid_t *ret_called)
{
    int status;
    *ret_called = fork();
    if (*ret_called == 0) {
        close(ends[0]);
        _exit(!reply_to_calls(ends[1]));
    }
    close(ends[1]);
    const pid_t caller = fork();
    if (caller == 0) {
        serve_a_request();
        _exit(!send_calls(ends[0]));
    }
    assert_int_equal(waitpid(caller, &status, 0), caller);
    assert_int_equal(status, 0);
    assert_int_equal(waitpid(*ret_called, &status, 0), *ret_called);
    assert_int_equal(status, 0);
    return caller;
}

/* The counts of one kind of call of a process. False: there are none. */
static bool find_counts(const struct recording *r, pid_t caller, int call, struct service_call_key *ret_key,
                        struct service_call_counts *ret)
{
    bool is_found = false;
    struct map_walk walk = request_source_service_calls(r->request);
    while (!is_found && map_walk_next(&walk, ret_key, ret))
        is_found = request_name_pid(ret_key->process) == (uint32_t)caller && (int)ret_key->call == call;
    map_walk_end(&walk);
    return is_found;
}

static uint32_t count_calls(const struct service_call_counts *counts)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < SERVICE_CALL_BUCKETS; i++)
        sum += counts->buckets[i];
    return sum;
}

static void check_exchange(const struct recording *r, pid_t caller, const struct exchange *e)
{
    struct service_call_key key;
    struct service_call_counts counts;
    uint32_t calls = 0, failed = 0;
    for (size_t i = 0; i < array_size(exchanges); i++)
        if (exchanges[i].protocol == e->protocol && exchanges[i].word == e->word) {
            calls++;
            failed += exchanges[i].has_failed;
        }
    if (!find_counts(r, caller, client_call(e->protocol, e->word), &key, &counts))
        fail_msg("%.5s: not counted", e->call);
    if (count_calls(&counts) != calls || counts.failed != failed)
        fail_msg("%.5s: %u calls, %u failed", e->call, count_calls(&counts), counts.failed);
}

/* The duration of the delayed call is in its bucket. */
static void check_duration(const struct service_call_counts *counts)
{
    assert_true(counts->wait_ns >= DELAY_MS * 1000000ull);
    assert_int_equal(counts->buckets[service_call_duration_bucket(counts->wait_ns)], 1);
}

static void check_address(const struct recording *r, const struct service_address *address, pid_t called, uint16_t port)
{
    static const uint8_t loopback[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
    struct service_process process;
    assert_memory_equal(address->address, loopback, sizeof(loopback));
    assert_int_equal(address->port, port);
    assert_true(request_source_service_process(r->request, address, &process));
    assert_int_equal(process.pid, called);
    assert_string_equal(process.comm, "called");
}

void expect_service_calls(const struct recording *r)
{
    struct service_call_key key;
    struct service_call_counts counts;
    struct sockaddr_in address;
    socklen_t size = sizeof(address);
    pid_t called;
    int ends[2];
    connect_pair(ends);
    assert_int_equal(getsockname(ends[1], (struct sockaddr *)&address, &size), 0);
    const pid_t caller = exchange_calls(ends, &called);
    for (size_t i = 0; i < array_size(exchanges); i++)
        check_exchange(r, caller, &exchanges[i]);
    assert_true(find_counts(r, caller, client_call(CLIENT_REDIS, CLIENT_GET), &key, &counts));
    assert_int_equal(count_calls(&counts), 1);
    check_duration(&counts);
    check_address(r, &key.server, called, ntohs(address.sin_port));
    if (find_counts(r, caller, client_call(CLIENT_REDIS, CLIENT_DEL), &key, &counts)) /* else the end is not seen */
        assert_int_equal(counts.failed, 1);
    else
        assert_false(r->has_cookies);
    close(ends[0]);
}

/* Its other end is named by the process that made it. */
void test_service_calls_on_unix_sockets(void **state)
{
    struct recording r;
    struct service_call_key key;
    struct service_call_counts counts;
    pid_t called, listener = 0;
    int ends[2];
    (void)state;
    recording_begin_or_skip(&r, RECORDS);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const pid_t caller = exchange_calls(ends, &called);
    assert_true(find_counts(&r, caller, client_call(CLIENT_REDIS, CLIENT_PING), &key, &counts));
    assert_int_equal(count_calls(&counts), 2);
    memcpy(&listener, key.server.address, sizeof(listener));
    assert_int_equal(listener, getpid());
    assert_int_equal(key.server.port, 0);
    close(ends[0]);
    recording_end(&r);
}
