/* Lists of CPUs as the kernel writes them. */
#include "sources/attach/cpu_list.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

static void test_valid_lists(void **state)
{
    struct cpu_list list;

    (void)state;
    assert_int_equal(cpu_list_parse("0-2,5,62-65\n", &list), 0);
    for (unsigned cpu = 0; cpu < 100; cpu++)
        assert_int_equal(cpu_list_has(&list, cpu), cpu <= 2 || cpu == 5 || (cpu >= 62 && cpu <= 65));
    assert_int_equal(cpu_list_parse("0", &list), 0);
    assert_true(cpu_list_has(&list, 0));
    assert_false(cpu_list_has(&list, 1));
    assert_int_equal(cpu_list_parse("", &list), 0);
    assert_false(cpu_list_has(&list, 0));
    assert_false(cpu_list_has(&list, CPU_LIST_MAX));
}

static void test_invalid_lists_change_nothing(void **state)
{
    static const char *const bad[] = {"-1", "1-", "3-1", "a", "1,,2", "1;2", "0x1", "1 2", ","};
    struct cpu_list list, before;

    (void)state;
    memset(&list, 0x5a, sizeof(list));
    before = list;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (cpu_list_parse(bad[i], &list) != -EINVAL)
            fail_msg("\"%s\" was accepted", bad[i]);
    assert_int_equal(cpu_list_parse("8192", &list), -ERANGE);
    assert_int_equal(cpu_list_parse("99999999999999999999", &list), -ERANGE);
    assert_memory_equal(&list, &before, sizeof(list));
}

static void test_online_cpus(void **state)
{
    struct cpu_list list;

    (void)state;
    assert_int_equal(cpu_list_online(&list), 0);
    assert_true(cpu_list_has(&list, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid_lists),
        cmocka_unit_test(test_invalid_lists_change_nothing),
        cmocka_unit_test(test_online_cpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
