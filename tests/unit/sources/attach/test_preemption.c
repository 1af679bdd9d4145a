/* Which kernels may preempt programs at functions: by the version and the modes as kernels write them. */
#include "sources/attach/preemption.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_kernels_built_without_preemption(void **state)
{
    (void)state;
    assert_false(preemption_parse("#1 SMP Debian 5.10.218-1 (2024-06-01)", ""));
}

static void test_kernels_built_with_preemption(void **state)
{
    (void)state;
    assert_true(preemption_parse("#1 SMP PREEMPT Tue May 7 21:35:54 UTC 2024", ""));
    assert_true(preemption_parse("#1 SMP PREEMPT_RT Debian 6.1.90-1 (2024-05-03)", ""));
}

static void test_modes_set_at_boot(void **state)
{
    static const char version[] = "#1 SMP PREEMPT_DYNAMIC Debian 6.12.117-1 (2026-11-12)";
    (void)state;
    assert_false(preemption_parse(version, "none (voluntary) full \n"));
    assert_false(preemption_parse(version, "(none) voluntary full \n"));
    assert_true(preemption_parse(version, "none voluntary (full) \n"));
    assert_true(preemption_parse(version, "full (lazy) \n"));
    assert_true(preemption_parse(version, "")); /* not readable */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels_built_without_preemption),
        cmocka_unit_test(test_kernels_built_with_preemption),
        cmocka_unit_test(test_modes_set_at_boot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
