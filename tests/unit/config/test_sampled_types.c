/* sampled_types.c: CPU time with the period of the sampling clock; off-CPU time if it is enabled. */
#include "config/sampled_types.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_types_follow_the_configuration(void **state)
{
    (void)state;
    struct sampled_type types[SAMPLED_TYPES_MAX];
    struct config config;
    config_defaults(&config);
    config.profile_rate_hz = 20;
    config_put_bool(&config, "off_cpu.enabled", false);
    assert_int_equal(sampled_types(&config, types), 1);
    assert_ptr_equal(types[0].type, &sample_type_cpu);
    assert_int_equal(types[0].period, 50000000);
    config_put_bool(&config, "off_cpu.enabled", true);
    assert_int_equal(sampled_types(&config, types), 2);
    assert_ptr_equal(types[1].type, &sample_type_off_cpu);
    assert_int_equal(types[1].period, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_types_follow_the_configuration)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
