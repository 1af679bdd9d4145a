/* The instance UID of an agent: the same after each start, another on another host, without the machine's id in it. */
#include "send/opamp_uid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ID "0123456789abcdef0123456789ABCDEF"

static void test_uid_depends_on_machine_and_host_only(void **state)
{
    static const uint8_t expected[OPAMP_UID_BYTES] = {0x45, 0xd8, 0x43, 0x3c, 0x8f, 0x98, 0x81, 0xc2,
                                                      0x90, 0x1e, 0x5a, 0x23, 0x7b, 0x7b, 0xe9, 0x67};
    uint8_t uid[OPAMP_UID_BYTES], other[OPAMP_UID_BYTES];
    (void)state;
    assert_true(opamp_uid_derive(ID "\n", "node-1", uid));
    assert_memory_equal(uid, expected, sizeof(uid));
    assert_true(opamp_uid_derive(ID, "node-1", other)); /* without the line's end */
    assert_memory_equal(uid, other, sizeof(uid));
    assert_true(opamp_uid_derive(ID "\n", "node-2", other)); /* a clone of the machine's image */
    assert_memory_not_equal(uid, other, sizeof(uid));
    assert_true(opamp_uid_derive("1123456789abcdef0123456789abcdef\n", "node-1", other));
    assert_memory_not_equal(uid, other, sizeof(uid));
}

static void test_text_that_is_no_machine_id_is_refused(void **state)
{
    static const char *const texts[] = {"",
                                        "\n",
                                        "uninitialized\n",
                                        "0123456789abcdef0123456789abcde\n",
                                        ID "0\n",
                                        "0123456789abcdef0123456789abcdeg\n",
                                        "00000000000000000000000000000000\n"};
    uint8_t uid[OPAMP_UID_BYTES] = {7}, before[OPAMP_UID_BYTES] = {7};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_false(opamp_uid_derive(texts[i], "node-1", uid));
    assert_memory_equal(uid, before, sizeof(uid));
}

/* Where the machine has no id, each UID is new. */
static void test_uid_of_this_host(void **state)
{
    uint8_t uid[OPAMP_UID_BYTES], again[OPAMP_UID_BYTES];
    (void)state;
    const bool is_derived = opamp_uid_make("node-1", uid);
    assert_int_equal(opamp_uid_make("node-1", again), is_derived);
    assert_int_equal(memcmp(uid, again, sizeof(uid)) == 0, is_derived);
    assert_int_equal(uid[6] >> 4, is_derived ? 8 : 7); /* the version of the UUID */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uid_depends_on_machine_and_host_only),
        cmocka_unit_test(test_text_that_is_no_machine_id_is_refused),
        cmocka_unit_test(test_uid_of_this_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
