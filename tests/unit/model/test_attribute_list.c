/* attribute_list.c: valid and invalid lists, and the decoded pairs. */
#include "model/attribute_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_pairs_are_decoded(void **state)
{
    char name[ATTRIBUTE_LIST_NAME_BYTES], value[ATTRIBUTE_LIST_VALUE_BYTES];
    const char *at = "deployment.environment.name=prod, team =a%20b%2Cc ,empty=,";
    (void)state;
    assert_true(attribute_list_is_valid(at));
    assert_true(attribute_list_next(&at, name, value));
    assert_string_equal(name, "deployment.environment.name");
    assert_string_equal(value, "prod");
    assert_true(attribute_list_next(&at, name, value));
    assert_string_equal(name, "team");
    assert_string_equal(value, "a b,c");
    assert_true(attribute_list_next(&at, name, value));
    assert_string_equal(value, "");
    assert_false(attribute_list_next(&at, name, value));
}

static void test_invalid_lists(void **state)
{
    static const char *const lists[] = {"a", "=b", "a=b,,c=d", "a=%2", "a=%zz", "a=%00", "a=\n", " =b"};
    char text[2000];
    (void)state;
    assert_true(attribute_list_is_valid(""));
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        if (attribute_list_is_valid(lists[i]))
            fail_msg("'%s' is accepted", lists[i]);
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    text[1] = '=';
    assert_false(attribute_list_is_valid(text));
    for (int i = 0; i <= ATTRIBUTE_LIST_MAX; i++) {
        memcpy(text + 4 * i, "a=b,", 5);
        assert_int_equal(attribute_list_is_valid(text), i < ATTRIBUTE_LIST_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs_are_decoded),
        cmocka_unit_test(test_invalid_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
