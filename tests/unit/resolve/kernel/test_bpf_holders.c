/* What /proc/PID/fdinfo contains for the descriptor of a program and of a link, and for others. */
#include "resolve/kernel/bpf_holders.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_program_and_link_fdinfo(void **state)
{
    (void)state;
    assert_int_equal(
        bpf_holders_parse(
            "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nprog_type:\t7\nprog_jited:\t1\nprog_id:\t284\nrun_time_ns:\t0\n"),
        284);
    assert_int_equal(
        bpf_holders_parse("pos:\t0\nlink_type:\tperf\nlink_id:\t9\nprog_tag:\t7c20c301cbec7bb6\nprog_id:\t4294967295"),
        UINT32_MAX);
}

static void test_invalid_fdinfo(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "\n\n",
                                        "prog_id:",
                                        "prog_id:\t",
                                        "prog_id:\tx\n",
                                        "prog_id:\t-1\n",
                                        "prog_id:\t4294967296\n",
                                        "prog_id:\t99999999999999999999999\n",
                                        "prog_id:\t12x\n",
                                        "a prog_id:\t12\n",
                                        "map_id:\t12\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(bpf_holders_parse(texts[i]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program_and_link_fdinfo),
        cmocka_unit_test(test_invalid_fdinfo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
