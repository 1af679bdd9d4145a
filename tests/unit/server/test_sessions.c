/* sessions.c: which ids are accepted, and for how long. */
#include "server/sessions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define HOUR_NS 3600000000000ull

static uint64_t now_ns;

static uint64_t now(void)
{
    return now_ns;
}

static int start(void **state)
{
    now_ns = HOUR_NS;
    return sessions_new(now, (struct sessions **)state);
}

static int stop(void **state)
{
    sessions_free(*state);
    return 0;
}

static void begin(struct sessions *s, unsigned char token, char ret_id[SESSION_ID_BYTES])
{
    unsigned char hash[SHA256_BYTES];
    memset(hash, token, sizeof(hash));
    assert_int_equal(sessions_begin(s, hash, ret_id), 0);
    assert_int_equal(strlen(ret_id), SESSION_ID_BYTES - 1);
}

/* The first byte of the token's hash; -1: no session. */
static int find(struct sessions *s, const char *id)
{
    unsigned char hash[SHA256_BYTES];
    return sessions_find(s, id, hash) ? hash[0] : -1;
}

static void test_an_id_stands_for_its_token_until_its_end(void **state)
{
    struct sessions *s = *state;
    char one[SESSION_ID_BYTES], two[SESSION_ID_BYTES];
    begin(s, 1, one);
    begin(s, 2, two);
    assert_int_equal(find(s, one), 1);
    assert_int_equal(find(s, two), 2);
    sessions_end(s, one);
    sessions_end(s, "unknown");
    assert_int_equal(find(s, one), -1);
    assert_int_equal(find(s, two), 2);
}

static void test_only_a_whole_id_is_accepted(void **state)
{
    struct sessions *s = *state;
    char id[SESSION_ID_BYTES];
    begin(s, 1, id);
    assert_int_equal(find(s, ""), -1);
    id[SESSION_ID_BYTES - 2] ^= 1;
    assert_int_equal(find(s, id), -1);
    id[SESSION_ID_BYTES - 2] ^= 1;
    assert_int_equal(find(s, id), 1);
    id[SESSION_ID_BYTES - 2] = '\0';
    assert_int_equal(find(s, id), -1);
}

static void test_a_session_ends_when_it_is_not_used(void **state)
{
    struct sessions *s = *state;
    char id[SESSION_ID_BYTES];
    begin(s, 1, id);
    for (int i = 0; i < 3; i++) {
        now_ns += (SESSION_IDLE_H - 1) * HOUR_NS;
        assert_int_equal(find(s, id), 1);
    }
    now_ns += SESSION_IDLE_H * HOUR_NS;
    assert_int_equal(find(s, id), -1);
}

static void test_the_session_unused_for_longest_gives_way(void **state)
{
    struct sessions *s = *state;
    char first[SESSION_ID_BYTES], second[SESSION_ID_BYTES], id[SESSION_ID_BYTES];
    begin(s, 1, first);
    now_ns++;
    begin(s, 2, second);
    for (int i = 2; i < SESSIONS_MAX; i++, now_ns++)
        begin(s, 3, id);
    assert_int_equal(find(s, first), 1); /* used last */
    begin(s, 3, id);
    assert_int_equal(find(s, second), -1);
    assert_int_equal(find(s, first), 1);
    assert_int_equal(find(s, id), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_id_stands_for_its_token_until_its_end, start, stop),
        cmocka_unit_test_setup_teardown(test_only_a_whole_id_is_accepted, start, stop),
        cmocka_unit_test_setup_teardown(test_a_session_ends_when_it_is_not_used, start, stop),
        cmocka_unit_test_setup_teardown(test_the_session_unused_for_longest_gives_way, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
