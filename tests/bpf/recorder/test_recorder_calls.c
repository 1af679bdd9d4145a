/* What a server asks other services for, by the bytes that it sends: as the drivers of databases write them. */
#include "../connection.h"
#include "recording.h"

#include "diagnose/flight/client_calls.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define RECORDS 8192

void serve_a_request(void)
{
    static const char request[] = "GET / HTTP/1.1\r\n\r\n";
    char text[64];
    int ends[2];
    connect_pair(ends);
    if (send(ends[0], request, sizeof(request) - 1, 0) < 0 || recv(ends[1], text, sizeof(text), 0) < 0)
        _exit(1);
    close(ends[0]);
    close(ends[1]);
}

/* What the process asked for on this socket, send by send: fills `ret` with the texts, and returns how many. */
static size_t read_calls(const struct recording *r, pid_t pid, uint64_t cookie, char ret[][CLIENT_CALL_TEXT_BYTES],
                         size_t max)
{
    size_t count = 0, at = 0;
    struct flight_window w = recording_window(r);
    const struct recorder_record *record;
    while ((record = recording_next(&w, &at, RECORDER_SEND, (uint32_t)pid)))
        if (record->object == cookie && recorder_low(record->value)) {
            assert_true(count < max);
            client_call_text(record->syscall, ret[count++]);
        }
    flight_recorder_window_free(&w);
    return count;
}

#define MESSAGE(text, expected)                                                                                        \
    {                                                                                                                  \
        text, sizeof(text) - 1, expected                                                                               \
    }

static const struct {
    const char *text;
    size_t bytes;
    const char *expected;
} messages[] = {
    /* PostgreSQL: a statement; with spaces before it; one that is no known word. */
    MESSAGE("Q\0\0\0\x0dselect 1\0", "PostgreSQL SELECT"),
    MESSAGE("Q\0\0\0\x1c\n\t   Update t set a = 1\0", "PostgreSQL UPDATE"),
    MESSAGE("Q\0\0\0\x0flisten abc\0", "PostgreSQL statement"),
    /* Parsed without a name and run at once, as libpq and pgx do it; then with a name, which is used later. */
    MESSAGE("P\0\0\0\x15\0INSERT INTO t\0\0\0B\0\0\0\x0c\0\0\0\0\0\0\0\0", "PostgreSQL INSERT"),
    MESSAGE("P\0\0\0\x15s1\0DELETE FROM\0\0\0S\0\0\0\x04", "PostgreSQL DELETE"),
    MESSAGE("B\0\0\0\x0e\0s1\0\0\0\0\0\0\0E\0\0\0\x09\0\0\0\0\0", "PostgreSQL DELETE"),
    MESSAGE("B\0\0\0\x0e\0s2\0\0\0\0\0\0\0E\0\0\0\x09\0\0\0\0\0", "prepared PostgreSQL statement"),
    /* MySQL: a query, one with attributes, and a prepared statement. */
    MESSAGE("\x09\0\0\0\x03SELECT 1", "MySQL SELECT"),
    MESSAGE("\x10\0\0\0\x03\0\1REPLACE INTO ", "MySQL REPLACE"),
    MESSAGE("\x0a\0\0\0\x17\1\0\0\0\0\1\0\0\0", "prepared MySQL statement"),
    /* Its length is a letter that begins messages of others. */
    MESSAGE("\x42\0\0\0\x03SELECT 8901234567890123456789012345678901234567890123456789012345", "MySQL SELECT"),
    /* Redis: also a command of two words, and one that is not known. */
    MESSAGE("*2\r\n$7\r\nHGETALL\r\n$1\r\na\r\n", "Redis HGETALL"),
    MESSAGE("*3\r\n$6\r\nclient\r\n$7\r\nSETNAME\r\n$1\r\na\r\n", "Redis command"),
    MESSAGE("*1\r\n$4\r\nping\r\n", "Redis PING"),
    /* HTTP. */
    MESSAGE("GET /a HTTP/1.1\r\n\r\n", "HTTP GET"),
    MESSAGE("POST /a HTTP/1.1\r\n\r\n", "HTTP POST"),
    MESSAGE("DELETE http://a/ HTTP/1.1\r\n\r\n", "HTTP DELETE"),
    /* No known protocol. */
    MESSAGE("Q\0\0\0\x08text of something else", ""),
    MESSAGE("P\0\0\0\x05text of something else", ""),
    MESSAGE("\x09\0\0\1\x03SELECT 1", ""),
    MESSAGE("\x16\x03\x01\0\xc8SELECT 1", ""),
    MESSAGE("\x17\x03\x03\0\x16SELECT 1901234567890", ""),             /* ciphertext */
    MESSAGE("\x1a\0\0\0\x03\0\0\0\0\0\0\0\xdd\x07\0\0SELECT 678", ""), /* MongoDB */
    MESSAGE("*text that begins with a star", ""),
    MESSAGE("GET the best of it, says a text", ""),
    MESSAGE("Q", ""),
};

#define SENDS (array_size(messages) + 2)

static bool send_all(int to, int from)
{
    char copy[128];
    struct iovec parts[] = {{(char[]){"*1\r\n$4\r\nping\r\n"}, 14}, {(char[]){"*1\r\n"}, 4}};
    for (size_t i = 0; i < array_size(messages); i++)
        if (send(to, messages[i].text, messages[i].bytes, 0) < 0 || recv(from, copy, sizeof(copy), 0) < 0)
            return false;
    /* The buffer goes on where the text has ended. */
    return writev(to, parts, 2) == 18 && send(to,
                                              "\x07\0\0\0\x03"
                                              "COMMITS",
                                              11, 0) == 11;
}

/* The agent's own process is never a server, so that a child sends. */
static pid_t send_by_child(bool serves, int to, int from)
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        if (serves)
            serve_a_request();
        _exit(!send_all(to, from));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return child;
}

void test_calls_of_a_server(void **state)
{
    struct recording r;
    char calls[64][CLIENT_CALL_TEXT_BYTES];
    int ends[2];
    (void)state;
    recording_begin_or_skip(&r, RECORDS);
    connect_pair(ends);
    const pid_t child = send_by_child(true, ends[0], ends[1]);
    assert_int_equal(read_calls(&r, child, recording_cookie(ends[0]), calls, array_size(calls)), SENDS);
    for (size_t i = 0; i < array_size(messages); i++)
        assert_string_equal(calls[i], messages[i].expected);
    assert_string_equal(calls[array_size(messages)], "Redis PING");
    assert_string_equal(calls[array_size(messages) + 1], "MySQL COMMIT");
    close(ends[0]);
    close(ends[1]);
    recording_end(&r);
}

/* What a service sends on a connection that it accepted, and what a program sends that serves no requests. */
void test_other_sends_are_no_calls(void **state)
{
    struct recording r;
    char calls[64][CLIENT_CALL_TEXT_BYTES];
    int ends[2];
    (void)state;
    recording_begin_or_skip(&r, RECORDS);
    connect_pair(ends);
    const pid_t server = send_by_child(true, ends[1], ends[0]), other = send_by_child(false, ends[0], ends[1]);
    assert_int_equal(read_calls(&r, server, recording_cookie(ends[1]), calls, array_size(calls)), SENDS);
    for (size_t i = 0; i < SENDS; i++)
        assert_string_equal(calls[i], "");
    assert_int_equal(read_calls(&r, other, recording_cookie(ends[0]), calls, array_size(calls)), SENDS);
    for (size_t i = 0; i < SENDS; i++)
        assert_string_equal(calls[i], "");
    close(ends[0]);
    close(ends[1]);
    recording_end(&r);
}

/* "S" is how PostgreSQL says that it speaks TLS, and how SEARCH begins. */
void test_answer_of_one_letter_is_no_request(void **state)
{
    struct recording r;
    char letter;
    int ends[2], status;
    size_t at = 0, sends = 0;
    const struct recorder_record *record;
    (void)state;
    recording_begin_or_skip(&r, RECORDS);
    connect_pair(ends);
    assert_int_equal(send(ends[1], "S", 1, 0), 1);
    const pid_t child = fork();
    if (child == 0)
        _exit(recv(ends[0], &letter, 1, 0) != 1 || send(ends[0], "more", 4, 0) != 4);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    struct flight_window w = recording_window(&r);
    for (; (record = recording_next(&w, &at, RECORDER_SEND, (uint32_t)child)); sends++)
        assert_int_equal(record->flags, RECORDER_TCP);
    flight_recorder_window_free(&w);
    assert_int_equal(sends, 1);
    close(ends[0]);
    close(ends[1]);
    recording_end(&r);
}
