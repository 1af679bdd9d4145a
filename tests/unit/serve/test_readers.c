/* readers.c: who is closed when all places are taken, and when answers take too much memory. */
#include "serve/readers.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define ANSWERS_MAX 1000
#define SLOW_NS     10

static uint64_t now_ns;
static int64_t held;

static uint64_t read_clock(void)
{
    return now_ns;
}

static void hold(void *context, int64_t bytes)
{
    (void)context;
    held += bytes;
}

struct client {
    int own, served;
    struct reader *reader;
};

static struct client connect_client(struct readers *r)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    now_ns++;
    return (struct client){.own = pair[0], .served = pair[1], .reader = readers_add(r, pair[1])};
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
    assert_int_equal(readers_new(
                         &(struct readers_options){
                             .answers_max_bytes = ANSWERS_MAX, .slow_ns = SLOW_NS, .now_ns = read_clock, .hold = hold},
                         &r),
                     0);
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
    assert_null(readers_add(r, clients[0].served));
    for (size_t i = 0; i < READERS_MAX + READERS_SPARE; i++)
        disconnect(r, &clients[i]);
    readers_free(r);
}

static void test_answers_have_a_limit_and_slow_ones_are_ended_for_the_next(void **state)
{
    struct readers *r = new_readers();
    struct client slow = connect_client(r), fast = connect_client(r);
    (void)state;
    assert_true(readers_may_answer(r)); /* one answer may be larger than the limit */
    reader_asked(r, slow.reader);
    readers_hold(r, ANSWERS_MAX + 1);
    now_ns += SLOW_NS;
    reader_asked(r, fast.reader);
    assert_false(readers_may_answer(r));
    assert_false(is_closed(&slow));
    now_ns++;
    assert_false(readers_may_answer(r)); /* its memory is freed later */
    assert_true(is_closed(&slow));
    assert_false(is_closed(&fast));
    assert_int_equal(held, ANSWERS_MAX + 1);
    readers_hold(r, -(ANSWERS_MAX + 1));
    assert_true(readers_may_answer(r));
    assert_int_equal(held, 0);
    disconnect(r, &slow);
    disconnect(r, &fast);
    readers_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_connection_takes_the_place_of_the_one_that_waited_longest),
        cmocka_unit_test(test_if_nobody_waits_the_slowest_reader_is_closed),
        cmocka_unit_test(test_closed_connections_that_are_not_removed_yet_have_places_of_their_own),
        cmocka_unit_test(test_answers_have_a_limit_and_slow_ones_are_ended_for_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
