/* The parts of the agent's memory and its tables of a fixed size fit into budget.memory, for any enabled signals. */
#include "config/config.h"
#include "config/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define MIB 1048576u

static uint64_t sum_of(const struct memory_plan *p)
{
    uint64_t sum = p->fixed_bytes;
    for (int part = 0; part < MEMORY_PART_COUNT; part++)
        sum += p->bytes[part];
    return sum;
}

static struct memory_plan plan_of(const struct config *config, long cpus)
{
    struct memory_plan plan;
    memory_plan_make(config, config->budget_memory_bytes, cpus, true, &plan);
    return plan;
}

static void test_defaults_fit_with_room_for_requests(void **state)
{
    struct config config;
    (void)state;
    config_defaults(&config);
    const struct memory_plan plan = plan_of(&config, 2);
    assert_int_equal(plan.missing_bytes, 0);
    assert_true(sum_of(&plan) <= config.budget_memory_bytes);
    assert_true(plan.bytes[MEMORY_RECORDER] >= 10 * MIB);
    assert_int_equal(plan.bytes[MEMORY_WAIT_RING], 0);
    assert_int_equal(plan.bytes[MEMORY_IO_TABLES], 0);
    assert_int_equal(plan.bytes[MEMORY_EXPORT_QUEUE], 0);
    assert_int_equal(plan.bytes[MEMORY_SPAN_QUEUE], 0);
    assert_int_equal(plan.bytes[MEMORY_EVENT_QUEUE], 0);
}

static void test_all_signals_fit_the_default(void **state)
{
    struct config config;
    (void)state;
    config_defaults(&config);
    config_enable_signals(&config, true);
    snprintf(config.otlp_profiles_endpoint, sizeof(config.otlp_profiles_endpoint), "http://collector:4318/p");
    snprintf(config.otlp_traces_endpoint, sizeof(config.otlp_traces_endpoint), "http://collector:4318/t");
    snprintf(config.otlp_logs_endpoint, sizeof(config.otlp_logs_endpoint), "http://collector:4318/l");
    for (long cpus = 1; cpus <= 16; cpus *= 2) {
        const struct memory_plan plan = plan_of(&config, cpus);
        assert_int_equal(plan.missing_bytes, 0);
        assert_true(sum_of(&plan) <= config.budget_memory_bytes);
        for (int part = MEMORY_NONE + 1; part < MEMORY_PART_COUNT; part++)
            assert_true(plan.bytes[part] > 0);
    }
}

static void test_too_many_cpus_for_the_default_are_reported(void **state)
{
    struct config config;
    (void)state;
    config_defaults(&config);
    config_enable_signals(&config, true);
    assert_true(plan_of(&config, 256).missing_bytes > 16 * MIB);
}

static void test_recording_has_no_windows(void **state)
{
    struct memory_plan plan;
    (void)state;
    memory_plan_make(NULL, 64 * MIB, 2, false, &plan);
    assert_int_equal(plan.bytes[MEMORY_WINDOWS], 0);
    assert_true(plan.bytes[MEMORY_SYMBOLS] > 0 && sum_of(&plan) <= 64 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_fit_with_room_for_requests),
        cmocka_unit_test(test_all_signals_fit_the_default),
        cmocka_unit_test(test_too_many_cpus_for_the_default_are_reported),
        cmocka_unit_test(test_recording_has_no_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
