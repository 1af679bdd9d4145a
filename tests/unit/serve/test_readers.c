/* readers.c: which connections are closed when all places are taken, and when answers take too much memory. */
#include "serve/readers.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define READERS_MAX        64
#define READERS_PER_ORIGIN 16
#define ANSWERS_MAX        1000
#define SLOW_NS            10
#define REQUEST_NS         1000
#define REPLY_NS           2000

static uint64_t now_ns;
static int64_t held;
static unsigned ended[CONNECTION_END_COUNT];

static uint64_t read_clock(void)
{
    return now_ns;
}

static void hold(void *context, int64_t bytes)
{
    (void)context;
    held += bytes;
}

static void count_end(void *context, enum connection_end end)
{
    (void)context;
    ended[end]++;
}

struct client {
    int own, served;
    struct reader *reader;
};

static struct client connect_from(struct readers *r, uint64_t origin)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    now_ns++;
    return (struct client){.own = pair[0], .served = pair[1], .reader = readers_add(r, pair[1], origin)};
}

/* From an address of its own. */
static struct client connect_client(struct readers *r)
{
    static uint64_t origin = 1000;
    return connect_from(r, origin++);
}

static bool is_closed(const struct client *c)
{
    char byte;
    return read(c->own, &byte, 1) == 0;
}

static void disconnect(struct readers *r, struct client *c)
{
    readers_remove(r, c->reader);
    close(c->own);
    close(c->served);
}

static struct readers *new_readers(void)
{
    struct readers *r;
    now_ns = 100;
    held = 0;
    memset(ended, 0, sizeof(ended));
    const struct readers_options options = {.max = READERS_MAX,
                                            .per_origin = READERS_PER_ORIGIN,
                                            .answers_max_bytes = ANSWERS_MAX,
                                            .request_ns = REQUEST_NS,
                                            .reply_ns = REPLY_NS,
                                            .slow_ns = SLOW_NS,
                                            .now_ns = read_clock,
                                            .hold = hold,
                                            .ended = count_end};
    assert_int_equal(readers_new(&options, &r), 0);
    return r;
}

static void test_a_new_connection_takes_the_place_of_the_one_that_waited_longest(void **state)
{
    struct readers *r = new_readers();
    struct client clients[READERS_MAX + 2];
    (void)state;
    for (size_t i = 0; i < READERS_MAX; i++)
        clients[i] = connect_client(r);
    reader_asked(r, clients[0].reader); /* the oldest one is being answered, */
    now_ns++;
    reader_asked(r, clients[1].reader); /* and the next one was, just now */
    reader_answered(r, clients[1].reader);
    for (size_t i = 0; i < 2; i++)
        clients[READERS_MAX + i] = connect_client(r);
    for (size_t i = 0; i < READERS_MAX + 2; i++)
        assert_int_equal(is_closed(&clients[i]), i == 2 || i == 3);
    assert_int_equal(ended[CONNECTION_END_LIMIT], 2);
    for (size_t i = 0; i < READERS_MAX + 2; i++)
        disconnect(r, &clients[i]);
    readers_free(r);
}

static void test_if_nobody_waits_the_slowest_reader_is_closed(void **state)
{
    struct readers *r = new_readers();
    struct client clients[READERS_MAX + 1];
    (void)state;
    for (size_t i = 0; i < READERS_MAX; i++) {
        clients[i] = connect_client(r);
        reader_asked(r, clients[i].reader);
    }
    clients[READERS_MAX] = connect_client(r);
    for (size_t i = 0; i <= READERS_MAX; i++)
        assert_int_equal(is_closed(&clients[i]), i == 0);
    reader_answered(r, clients[0].reader); /* its thread has not noticed yet: it stays closed */
    for (size_t i = 0; i <= READERS_MAX; i++)
        disconnect(r, &clients[i]);
    readers_free(r);
}

static void test_closed_connections_that_are_not_removed_yet_have_places_of_their_own(void **state)
{
    struct readers *r = new_readers();
    struct client clients[READERS_MAX + READERS_SPARE + 1];
    (void)state;
    for (size_t i = 0; i < READERS_MAX + READERS_SPARE; i++) {
        clients[i] = connect_client(r);
        assert_non_null(clients[i].reader);
    }
    disconnect(r, &clients[0]);
    clients[0] = connect_client(r);
    assert_non_null(clients[0].reader);
    assert_null(readers_add(r, clients[0].served, 1));
    for (size_t i = 0; i < READERS_MAX + READERS_SPARE; i++)
        disconnect(r, &clients[i]);
    readers_free(r);
}

static void test_answers_have_a_limit_and_slow_ones_are_ended_for_the_next(void **state)
{
    struct readers *r = new_readers();
    struct client slow = connect_client(r), fast = connect_client(r);
    (void)state;
    assert_true(readers_may_answer(r, slow.reader)); /* one answer may be larger than the limit */
    reader_asked(r, slow.reader);
    readers_hold(r, ANSWERS_MAX + 1);
    now_ns += SLOW_NS;
    reader_asked(r, fast.reader);
    assert_false(readers_may_answer(r, fast.reader));
    assert_false(is_closed(&slow));
    now_ns++;
    assert_false(readers_may_answer(r, fast.reader)); /* its memory is freed later */
    assert_true(is_closed(&slow));
    assert_false(is_closed(&fast));
    assert_int_equal(held, ANSWERS_MAX + 1);
    readers_hold(r, -(ANSWERS_MAX + 1));
    assert_true(readers_may_answer(r, fast.reader));
    assert_int_equal(held, 0);
    disconnect(r, &slow);
    disconnect(r, &fast);
    readers_free(r);
}

static void test_answers_to_the_client_with_most_are_ended_for_another_client(void **state)
{
    struct readers *r = new_readers();
    struct client greedy[3], other = connect_client(r);
    (void)state;
    for (size_t i = 0; i < array_size(greedy); i++) {
        greedy[i] = connect_from(r, 7);
        reader_asked(r, greedy[i].reader);
    }
    readers_hold(r, ANSWERS_MAX);
    assert_false(readers_may_answer(r, greedy[1].reader)); /* its own client has most */
    reader_asked(r, other.reader);
    assert_false(readers_may_answer(r, other.reader)); /* no reader frees the memory here */
    for (size_t i = 0; i < array_size(greedy); i++)
        assert_int_equal(is_closed(&greedy[i]), i == 0);
    assert_int_equal(ended[CONNECTION_END_SLOW_READER], 1);
    readers_hold(r, -ANSWERS_MAX);
    assert_true(readers_may_answer(r, other.reader));
    for (size_t i = 0; i < array_size(greedy); i++)
        disconnect(r, &greedy[i]);
    disconnect(r, &other);
    readers_free(r);
}

static void *free_memory(void *context)
{
    readers_hold(context, -ANSWERS_MAX);
    return NULL;
}

static void test_memory_that_is_being_freed_is_waited_for(void **state)
{
    struct readers *r;
    pthread_t thread;
    const struct readers_options options = {.max = READERS_MAX,
                                            .per_origin = READERS_PER_ORIGIN,
                                            .answers_max_bytes = ANSWERS_MAX,
                                            .slow_ns = SLOW_NS,
                                            .free_ns = 60000000000,
                                            .now_ns = read_clock,
                                            .hold = hold,
                                            .ended = count_end};
    (void)state;
    assert_int_equal(readers_new(&options, &r), 0);
    struct client slow = connect_client(r), other = connect_client(r);
    reader_asked(r, slow.reader);
    readers_hold(r, ANSWERS_MAX);
    now_ns += SLOW_NS + 1;
    assert_int_equal(pthread_create(&thread, NULL, free_memory, r), 0);
    assert_true(readers_may_answer(r, other.reader));
    pthread_join(thread, NULL);
    disconnect(r, &slow);
    disconnect(r, &other);
    readers_free(r);
}

static void test_a_client_with_its_share_of_connections_loses_one_of_its_own(void **state)
{
    struct readers *r = new_readers();
    struct client greedy[READERS_PER_ORIGIN + 2], other = connect_client(r);
    (void)state;
    for (size_t i = 0; i < array_size(greedy); i++) {
        greedy[i] = connect_from(r, 7);
        if (i == 0)
            reader_asked(r, greedy[0].reader);
    }
    assert_false(is_closed(&other));
    for (size_t i = 0; i < array_size(greedy); i++)
        assert_int_equal(is_closed(&greedy[i]), i == 1 || i == 2); /* the first one is being answered */
    assert_int_equal(ended[CONNECTION_END_ADDRESS_LIMIT], 2);
    for (size_t i = 0; i < array_size(greedy); i++)
        disconnect(r, &greedy[i]);
    disconnect(r, &other);
    readers_free(r);
}

static void test_where_all_are_taken_the_client_that_has_most_loses_one(void **state)
{
    struct readers *r = new_readers();
    struct client clients[READERS_MAX + 1];
    (void)state;
    for (size_t i = 0; i < READERS_MAX; i++)
        clients[i] = connect_from(r, i < 4 ? i : 100 + i / (READERS_PER_ORIGIN - 1)); /* four clients with one each */
    clients[READERS_MAX] = connect_from(r, 9);
    for (size_t i = 0; i <= READERS_MAX; i++)
        assert_int_equal(is_closed(&clients[i]), i == READERS_PER_ORIGIN - 1); /* the oldest of the first full share */
    for (size_t i = 0; i <= READERS_MAX; i++)
        disconnect(r, &clients[i]);
    readers_free(r);
}

static void test_requests_and_replies_have_a_deadline(void **state)
{
    struct readers *r = new_readers();
    struct client silent = connect_client(r), reading = connect_client(r), again = connect_client(r);
    (void)state;
    reader_asked(r, reading.reader);
    reader_asked(r, again.reader);
    now_ns += REQUEST_NS - 10;
    reader_answered(r, again.reader); /* its time begins anew */
    readers_tick(r);
    assert_false(is_closed(&silent));
    now_ns += 10;
    readers_tick(r);
    assert_true(is_closed(&silent));
    assert_false(is_closed(&again) || is_closed(&reading));
    now_ns += REPLY_NS - REQUEST_NS + 1;
    readers_tick(r);
    assert_true(is_closed(&again) && is_closed(&reading));
    readers_tick(r);
    assert_int_equal(ended[CONNECTION_END_NO_REQUEST], 2);
    assert_int_equal(ended[CONNECTION_END_SLOW_READER], 1);
    disconnect(r, &silent);
    disconnect(r, &reading);
    disconnect(r, &again);
    readers_free(r);
}

static void test_a_stalled_reader_counts_as_slow(void **state)
{
    struct readers *r = new_readers();
    struct client stalled = connect_client(r);
    (void)state;
    reader_asked(r, stalled.reader);
    reader_stalled(r, stalled.reader);
    reader_stalled(r, stalled.reader);
    assert_int_equal(ended[CONNECTION_END_SLOW_READER], 1);
    disconnect(r, &stalled);
    readers_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_connection_takes_the_place_of_the_one_that_waited_longest),
        cmocka_unit_test(test_if_nobody_waits_the_slowest_reader_is_closed),
        cmocka_unit_test(test_closed_connections_that_are_not_removed_yet_have_places_of_their_own),
        cmocka_unit_test(test_answers_have_a_limit_and_slow_ones_are_ended_for_the_next),
        cmocka_unit_test(test_answers_to_the_client_with_most_are_ended_for_another_client),
        cmocka_unit_test(test_memory_that_is_being_freed_is_waited_for),
        cmocka_unit_test(test_a_client_with_its_share_of_connections_loses_one_of_its_own),
        cmocka_unit_test(test_where_all_are_taken_the_client_that_has_most_loses_one),
        cmocka_unit_test(test_requests_and_replies_have_a_deadline),
        cmocka_unit_test(test_a_stalled_reader_counts_as_slow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
