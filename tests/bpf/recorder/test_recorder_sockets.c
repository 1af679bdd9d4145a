/* What the flight recorder has of sockets: the cookie, how many bytes, TCP's sequence numbers. */
#include "../connection.h"
#include "recording.h"

#include "sources/request/request.h"

#include "probes/request.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define RECORDS     8192
#define PATIENCE_NS 60000000000ull

/* This thread's only, or last, record of this kind about the socket; NULL: none. */
static const struct recorder_record *find(const struct flight_window *window, int kind, uint64_t cookie)
{
    const struct recorder_record *found = NULL, *record;
    size_t at = 0;
    while ((record = recording_next(window, &at, kind, (uint32_t)gettid())))
        found = record->object == cookie ? record : found;
    return found;
}

static void check_pair(int type)
{
    struct recording r;
    char text[16];
    int ends[2];
    recording_begin_or_skip(&r, RECORDS);
    assert_int_equal(socketpair(AF_UNIX, type, 0, ends), 0);
    assert_int_equal(send(ends[0], "seven 7", 7, 0), 7);
    assert_int_equal(recv(ends[1], text, sizeof(text), 0), 7);
    struct flight_window w = recording_window(&r);
    const struct recorder_record *sent = find(&w, RECORDER_SEND, recording_cookie(ends[0])),
                                 *ready = find(&w, RECORDER_READY, recording_cookie(ends[1])),
                                 *received = find(&w, RECORDER_RECEIVE, recording_cookie(ends[1]));
    assert_non_null(sent);
    assert_non_null(ready);
    assert_non_null(received);
    assert_int_equal(sent->value, 7);
    assert_int_equal(ready->value, 0);
    assert_int_equal(received->value, 7);
    assert_int_equal(sent->flags, RECORDER_UNIX);
    assert_int_equal(ready->flags, RECORDER_UNIX);
    assert_int_equal(received->flags, RECORDER_UNIX);
    assert_true(ready->time_ns < received->time_ns && sent->time_ns < received->time_ns);
    flight_recorder_window_free(&w);
    close(ends[0]);
    close(ends[1]);
    recording_end(&r);
}

void test_sockets_of_one_thread(void **state)
{
    (void)state;
    check_pair(SOCK_STREAM);
}

void test_datagrams(void **state)
{
    (void)state;
    check_pair(SOCK_DGRAM);
}

void test_peeking_is_no_receive(void **state)
{
    struct recording r;
    char text[16];
    int ends[2];
    (void)state;
    recording_begin_or_skip(&r, RECORDS);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(send(ends[0], "a", 1, 0), 1);
    assert_int_equal(recv(ends[1], text, sizeof(text), MSG_PEEK), 1);
    struct flight_window w = recording_window(&r);
    assert_non_null(find(&w, RECORDER_SEND, recording_cookie(ends[0])));
    assert_null(find(&w, RECORDER_RECEIVE, recording_cookie(ends[1])));
    flight_recorder_window_free(&w);
    close(ends[0]);
    close(ends[1]);
    recording_end(&r);
}

/* In the softirq of any thread: the packet may be processed by another one. */
static const struct recorder_record *find_ready(const struct flight_window *window, uint64_t cookie)
{
    const struct recorder_record *found = NULL;
    for (size_t i = 0; i < window->count; i++)
        if (window->records[i].kind == RECORDER_READY && window->records[i].object == cookie)
            found = &window->records[i];
    return found;
}

void test_tcp_sequence_numbers(void **state)
{
    struct recording r;
    char data[1000] = {0};
    int ends[2];
    (void)state;
    recording_begin_or_skip(&r, RECORDS);
    connect_pair(ends);
    assert_int_equal(send(ends[0], data, sizeof(data), 0), sizeof(data));
    assert_int_equal(recv(ends[1], data, sizeof(data), MSG_WAITALL), sizeof(data));
    struct flight_window w = recording_window(&r);
    const struct recorder_record *sent = find(&w, RECORDER_SEND, recording_cookie(ends[0])),
                                 *ready = find_ready(&w, recording_cookie(ends[1])),
                                 *received = find(&w, RECORDER_RECEIVE, recording_cookie(ends[1]));
    assert_non_null(sent);
    assert_non_null(ready);
    assert_non_null(received);
    assert_int_equal(recorder_low(sent->value), sizeof(data));
    assert_int_equal(recorder_low(received->value), sizeof(data));
    assert_int_equal(sent->flags, RECORDER_TCP);
    assert_int_equal(received->flags, RECORDER_TCP);
    assert_true(ready->flags & RECORDER_TCP);
    assert_true(ready->flags & RECORDER_IN_SOFTIRQ);
    assert_true(ready->time_ns < received->time_ns);
    assert_true(recorder_high(sent->value) != 0);
    assert_int_equal(recorder_high(sent->value), recorder_high(ready->value));
    assert_int_equal(recorder_high(sent->value), recorder_high(received->value));
    flight_recorder_window_free(&w);
    close(ends[0]);
    close(ends[1]);
    recording_end(&r);
}

static size_t count_empty(const struct flight_window *window, int kind, uint64_t cookie)
{
    size_t found = 0;
    for (size_t i = 0; i < window->count; i++)
        found += window->records[i].kind == kind && window->records[i].object == cookie &&
                 recorder_low(window->records[i].value) == 0;
    return found;
}

/* A connect is a send of no bytes, the end of the peer's bytes a receive of none. */
void test_connect_and_close(void **state)
{
    struct recording r;
    char data[8];
    int ends[2];
    (void)state;
    recording_begin_or_skip(&r, RECORDS);
    connect_pair(ends);
    const uint64_t client = recording_cookie(ends[0]), server = recording_cookie(ends[1]);
    close(ends[0]);
    assert_int_equal(recv(ends[1], data, sizeof(data), 0), 0);
    struct flight_window w = recording_window(&r);
    assert_int_equal(count_empty(&w, RECORDER_SEND, client), 1);
    assert_int_equal(count_empty(&w, RECORDER_SEND, server), 0);
    assert_int_equal(count_empty(&w, RECORDER_RECEIVE, server), 1);
    flight_recorder_window_free(&w);
    close(ends[1]);
    recording_end(&r);
}

/* The receiver drops all packets, so that the sender repeats its own. */
void test_retransmissions(void **state)
{
    struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog drop = {1, &nothing};
    struct recording r;
    char data[8];
    int ends[2], unused = 0;
    size_t again = 0;
    (void)state;
    recording_begin_or_skip(&r, RECORDS);
    connect_pair(ends);
    assert_int_equal(setsockopt(ends[1], SOL_SOCKET, SO_ATTACH_FILTER, &drop, sizeof(drop)), 0);
    assert_int_equal(send(ends[0], data, sizeof(data), 0), sizeof(data));
    for (const uint64_t until_ns = clock_monotonic_ns() + PATIENCE_NS; !again && clock_monotonic_ns() < until_ns;) {
        usleep(50000);
        struct flight_window w = recording_window(&r);
        again = count_empty(&w, RECORDER_RETRANSMIT, recording_cookie(ends[0]));
        flight_recorder_window_free(&w);
    }
    assert_true(again > 0);
    assert_int_equal(setsockopt(ends[1], SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused)), 0);
    assert_int_equal(recv(ends[1], data, sizeof(data), MSG_WAITALL), sizeof(data));
    close(ends[0]);
    close(ends[1]);
    recording_end(&r);
}

/* The socket's records name the called service, from its connect on. */
void test_peers(void **state)
{
    struct recording r;
    struct request_peer peer;
    struct sockaddr_in address;
    socklen_t size = sizeof(address);
    int ends[2];
    (void)state;
    recording_begin_or_skip(&r, RECORDS);
    connect_pair(ends);
    assert_int_equal(getpeername(ends[0], (struct sockaddr *)&address, &size), 0);
    assert_true(request_source_peer(r.request, recording_cookie(ends[0]), &peer));
    assert_int_equal(peer.family, AF_INET);
    assert_int_equal(peer.port, ntohs(address.sin_port));
    assert_memory_equal(peer.address, &address.sin_addr, sizeof(address.sin_addr));
    assert_false(request_source_peer(r.request, recording_cookie(ends[1]), &peer));
    assert_false(request_source_peer(r.request, 0, &peer));
    close(ends[0]);
    close(ends[1]);
    recording_end(&r);
}

#define PING     "\0\0\x8\x6\0\0\0\0\0ABCDEFGH"
#define SETTINGS "\0\0\0\x4\0\0\0\0\0"
#define HEADERS  "\0\0\1\1\5\0\0\0\1\x82"

static const struct {
    const char *bytes;
    size_t count;
    bool is_control;
} exchanges[] = {
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" SETTINGS, 24 + 9, true},
    {PING, 17, true},
    {HEADERS, 10, false},
    {PING HEADERS, 27, false},
    {"\0\0\4\x8\0\0\0\0\1\0\0\1\0", 13, true},
    {PING PING, 34, true},
    {"\0\0\x8\x6\0\0\0\0\0ABCD", 13, false},
    {"EFGH", 4, false},
    {"\0\0\4\0\1\0\0\0\1data", 13, false},
};

/* Each read, and then a send of the same bytes. */
static void serve_exchanges(int client, int server)
{
    char text[64];
    for (size_t i = 0; i < array_size(exchanges); i++)
        if (send(client, exchanges[i].bytes, exchanges[i].count, 0) < 0 ||
            recv(server, text, exchanges[i].count, MSG_WAITALL) < 0 ||
            send(server, exchanges[i].bytes, exchanges[i].count, 0) < 0)
            _exit(1);
}

/* The server's operations on this socket, which `tid` made, are those of `exchanges`. */
static void expect_exchanges(const struct flight_window *window, int kind, uint64_t cookie, uint32_t tid)
{
    const struct recorder_record *record, *control;
    size_t at = 0, i = 0;
    while ((record = recording_next(window, &at, kind, tid))) {
        if (record->object != cookie)
            continue;
        size_t next = at;
        do
            control = recording_next(window, &next, RECORDER_CONTROL, tid);
        while (control && !(control->object == cookie && control->time_ns >= record->time_ns));
        assert_true(i < array_size(exchanges));
        if (exchanges[i].is_control != (control && control->time_ns == record->time_ns))
            fail_msg("kind %d, exchange %zu", kind, i);
        i++;
    }
    assert_int_equal(i, array_size(exchanges));
}

/* Sends and receives of whole frames that keep up a connection of HTTP/2, and nothing else, are marked. */
void test_control_frames(void **state)
{
    struct recording r;
    int ends[2], status;
    (void)state;
    recording_begin_or_skip(&r, RECORDS);
    connect_pair(ends);
    const uint64_t cookie = recording_cookie(ends[1]);
    const pid_t child = fork();
    if (child == 0) {
        serve_exchanges(ends[0], ends[1]);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    struct flight_window w = recording_window(&r);
    expect_exchanges(&w, RECORDER_RECEIVE, cookie, (uint32_t)child);
    expect_exchanges(&w, RECORDER_SEND, cookie, (uint32_t)child);
    flight_recorder_window_free(&w);
    close(ends[0]);
    close(ends[1]);
    recording_end(&r);
}

/* The last record of this kind by this thread about a TCP socket with this many bytes. */
static const struct recorder_record *find_bytes(const struct flight_window *window, int kind, uint32_t bytes)
{
    const struct recorder_record *found = NULL, *record;
    size_t at = 0;
    while ((record = recording_next(window, &at, kind, (uint32_t)gettid())))
        found = record->flags == RECORDER_TCP && recorder_low(record->value) == bytes ? record : found;
    return found;
}

/* Those that do not see sockets as such name them otherwise, but have the same bytes. */
void test_every_attach_method(void **state)
{
    size_t methods = 0;
    (void)state;
    for (int method = 0; method < 6; method++) {
        struct recording r;
        char data[777] = {0};
        int ends[2];
        if (!recording_begin_by(&r, RECORDS, method))
            continue;
        connect_pair(ends);
        assert_int_equal(send(ends[0], data, sizeof(data), 0), sizeof(data));
        assert_int_equal(recv(ends[1], data, sizeof(data), MSG_PEEK | MSG_WAITALL), sizeof(data));
        struct flight_window w = recording_window(&r);
        assert_null(find_bytes(&w, RECORDER_RECEIVE, sizeof(data)));
        flight_recorder_window_free(&w);
        assert_int_equal(recv(ends[1], data, sizeof(data), MSG_WAITALL), sizeof(data));
        w = recording_window(&r);
        const struct recorder_record *sent = find_bytes(&w, RECORDER_SEND, sizeof(data)),
                                     *received = find_bytes(&w, RECORDER_RECEIVE, sizeof(data));
        if (!sent || !received)
            fail_msg("method %d: %s%s", method, sent ? "" : "no send ", received ? "" : "no receive");
        assert_true(sent->object != 0 && received->object != 0 && sent->object != received->object);
        assert_int_equal(recorder_high(sent->value), recorder_high(received->value));
        flight_recorder_window_free(&w);
        close(ends[0]);
        close(ends[1]);
        expect_service_calls(&r);
        recording_end(&r);
        methods++;
    }
    assert_true(methods > 0);
}
