/* first_tokens.h: the components of a first token stay as they were best known. */
#include "signals/request/first_tokens.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct first_tokens firsts;

static int start(void **state)
{
    (void)state;
    memset(&firsts, 0, sizeof(firsts));
    return 0;
}

static struct request stream(uint64_t id, uint64_t first_ns, uint64_t unattributed_ns)
{
    struct request r = {.id = id, .stream = {.is_stream = true, .first_ns = first_ns}};
    r.first_part_ns[REQUEST_PART_UNATTRIBUTED] = unattributed_ns;
    r.first_part_ns[REQUEST_PART_LOCK] = first_ns - unattributed_ns;
    return r;
}

static void test_earlier_record_explains_more(void **state)
{
    (void)state;
    struct request at_first = stream(7, 1000, 10), at_end = stream(7, 1000, 1000), later = stream(7, 1000, 0);
    first_tokens_keep(&firsts, &at_first);
    first_tokens_keep(&firsts, &at_end);
    assert_int_equal(at_first.first_part_ns[REQUEST_PART_LOCK], 990);
    assert_int_equal(at_end.first_part_ns[REQUEST_PART_LOCK], 990);
    assert_int_equal(at_end.first_part_ns[REQUEST_PART_UNATTRIBUTED], 10);
    first_tokens_keep(&firsts, &later);
    assert_int_equal(later.first_part_ns[REQUEST_PART_LOCK], 1000);
}

/* A chunk without text came first: the first token is another one. */
static void test_another_first_token_has_its_own(void **state)
{
    (void)state;
    struct request chunk = stream(7, 500, 0), token = stream(7, 1000, 1000), other = stream(8, 1000, 1000);
    first_tokens_keep(&firsts, &chunk);
    first_tokens_keep(&firsts, &token);
    first_tokens_keep(&firsts, &other);
    assert_int_equal(token.first_part_ns[REQUEST_PART_UNATTRIBUTED], 1000);
    assert_int_equal(other.first_part_ns[REQUEST_PART_UNATTRIBUTED], 1000);
}

static void test_other_requests_are_left_alone(void **state)
{
    (void)state;
    struct request plain = {.id = 7}, nameless = stream(0, 1000, 10);
    first_tokens_keep(&firsts, &plain);
    first_tokens_keep(&firsts, &nameless);
    assert_int_equal(nameless.first_part_ns[REQUEST_PART_UNATTRIBUTED], 10);
    for (size_t i = 0; i < FIRST_TOKENS_MAX; i++)
        assert_int_equal(firsts.streams[i].id, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_earlier_record_explains_more, start),
        cmocka_unit_test_setup(test_another_first_token_has_its_own, start),
        cmocka_unit_test_setup(test_other_requests_are_left_alone, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
