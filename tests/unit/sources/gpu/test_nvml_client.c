/* The agent's end of "sonde-gpu": a call that hangs is found and ends the process, and the agent never waits. */
#include "base/clock.h"
#include "gpu_script.h"
#include "sources/gpu/nvml.h"
#include "sources/gpu/nvml_client.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#define SECOND_NS 1000000000ull

static struct gpu_driver last_driver;
static unsigned polls, drivers;

static void keep_record(void *context, const struct record_header *record)
{
    (void)context;
    polls += record->kind == RECORD_GPU_POLL;
    if (record->kind == RECORD_GPU_DRIVER) {
        last_driver = *(const struct gpu_driver *)record;
        drivers++;
    }
}

static struct nvml_client *begin(const char *script)
{
    struct nvml_client *client;
    polls = drivers = 0;
    last_driver = (struct gpu_driver){0};
    script_write(script);
    assert_int_equal(nvml_client_new(NVML_POLL_NS, &client), 0);
    return client;
}

/* The process lives by the true time, so that only single turns may be ahead of it. */
static void turn_ahead(struct nvml_client *client, uint64_t ahead_ns)
{
    nvml_client_turn(client, clock_monotonic_ns() + ahead_ns, keep_record, NULL);
}

static void turn_until(struct nvml_client *client, const unsigned *count, unsigned wanted)
{
    for (unsigned ms = 0; *count < wanted; ms++) {
        assert_in_range(ms, 0, 20000);
        turn_ahead(client, 0);
        poll(NULL, 0, 1);
    }
}

static void turn_until_it_hangs(struct nvml_client *client)
{
    for (unsigned ms = 0; !script_hangs(); ms++) {
        assert_in_range(ms, 0, 20000);
        turn_ahead(client, 0);
        poll(NULL, 0, 1);
    }
}

static void test_polls_follow_each_other(void **state)
{
    (void)state;
    struct nvml_client *client = begin("nvmlDeviceGetCount_v2 - 1\n");
    assert_true(nvml_client_has_library(client));
    turn_until(client, &polls, 1);
    turn_ahead(client, NVML_POLL_NS);
    turn_until(client, &polls, 2);
    assert_int_equal(drivers, 0);
    nvml_client_free(client);
}

static void test_a_call_that_hangs_ends_the_process_and_is_named(void **state)
{
    (void)state;
    struct nvml_client *client = begin("nvmlDeviceGetCount_v2 - 1\nnvmlDeviceGetPowerUsage 0 hang\n");
    turn_until_it_hangs(client);
    const uint64_t start_ns = clock_monotonic_ns();
    turn_ahead(client, NVML_CALL_MAX_NS + SECOND_NS);
    assert_true(clock_monotonic_ns() - start_ns < NVML_CALL_MAX_NS);
    assert_int_equal(drivers, 1);
    assert_int_equal(last_driver.state, GPU_DRIVER_HANGS);
    assert_string_equal(last_driver.call, "nvmlDeviceGetPowerUsage");
    assert_int_equal(last_driver.wait[0], 'S'); /* the fake waits in pause(); a real driver in state D */
    assert_int_equal(last_driver.device, 0);
    assert_true(last_driver.elapsed_ns > NVML_CALL_MAX_NS);
    script_write("nvmlDeviceGetCount_v2 - 1\nnvmlDeviceGetPowerUsage 0 100\n");
    for (int i = 0; i < 100; i++) {
        turn_ahead(client, 30 * SECOND_NS);
        poll(NULL, 0, 1);
    }
    assert_int_equal(polls, 0); /* no process is started at once again */
    turn_ahead(client, 120 * SECOND_NS);
    turn_until(client, &drivers, 2);
    assert_int_equal(last_driver.state, GPU_DRIVER_RESPONDS);
    assert_int_equal(polls, 1);
    nvml_client_free(client);
}

/* Without persistence mode, it takes seconds for each device. */
static void test_initialization_may_take_longer(void **state)
{
    (void)state;
    struct nvml_client *client = begin("nvmlInit_v2 - hang\n");
    turn_until_it_hangs(client);
    turn_ahead(client, NVML_INIT_MAX_NS / 2);
    assert_int_equal(drivers, 0);
    turn_ahead(client, NVML_INIT_MAX_NS + SECOND_NS);
    assert_int_equal(drivers, 1);
    assert_string_equal(last_driver.call, "nvmlInit_v2");
    assert_int_equal(last_driver.device, GPU_NO_INSTANCE);
    nvml_client_free(client);
}

static void test_a_failure_is_reported_once(void **state)
{
    (void)state;
    struct nvml_client *client = begin("nvmlInit_v2 - error 18\n");
    turn_until(client, &drivers, 1);
    assert_int_equal(last_driver.state, GPU_DRIVER_FAILS);
    assert_int_equal(last_driver.error, 18);
    assert_string_equal(last_driver.message, "Driver/library version mismatch");
    turn_ahead(client, 100 * SECOND_NS); /* starts the next process */
    for (int i = 0; i < 100; i++) {
        turn_ahead(client, 0);
        poll(NULL, 0, 1);
    }
    assert_int_equal(drivers, 1);
    nvml_client_free(client);
}

/* "Driver not loaded" is usual on a node without a GPU, and another failure can follow it. */
static void test_a_failure_of_another_kind_is_reported(void **state)
{
    (void)state;
    struct nvml_client *client = begin("nvmlInit_v2 - error 9\n");
    turn_until(client, &drivers, 1);
    assert_int_equal(last_driver.error, 9);
    for (int i = 0; i < 100; i++) {
        turn_ahead(client, 0);
        poll(NULL, 0, 1);
    }
    assert_int_equal(drivers, 1); /* the end of the process after its report is no failure of its own */
    script_write("nvmlInit_v2 - error 18\n");
    turn_ahead(client, 100 * SECOND_NS); /* starts the next process */
    turn_until(client, &drivers, 2);
    assert_int_equal(last_driver.state, GPU_DRIVER_FAILS);
    assert_int_equal(last_driver.error, 18);
    nvml_client_free(client);
}

static void test_a_process_that_cannot_be_started_is_reported(void **state)
{
    struct rlimit kept, none;
    (void)state;
    struct nvml_client *client = begin("nvmlDeviceGetCount_v2 - 1\n");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &kept), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = kept.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    turn_ahead(client, 0);
    turn_ahead(client, NVML_RETRY_NS + SECOND_NS);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &kept), 0);
    assert_int_equal(drivers, 1);
    assert_int_equal(last_driver.state, GPU_DRIVER_FAILS);
    assert_int_equal(last_driver.error, NVML_OK);
    assert_string_equal(last_driver.message, "the process sonde-gpu cannot be started: Too many open files");
    turn_ahead(client, 3 * NVML_RETRY_NS);
    turn_until(client, &drivers, 2);
    assert_int_equal(last_driver.state, GPU_DRIVER_RESPONDS);
    nvml_client_free(client);
}

static void test_without_the_library_nothing_is_started(void **state)
{
    char kept[4096];
    (void)state;
    snprintf(kept, sizeof(kept), "%s", getenv("LD_LIBRARY_PATH"));
    unsetenv("LD_LIBRARY_PATH");
    struct nvml_client *client = begin("");
    if (nvml_client_has_library(client)) { /* a machine with a GPU */
        nvml_client_free(client);
        setenv("LD_LIBRARY_PATH", kept, 1);
        skip();
    }
    turn_ahead(client, 0);
    assert_int_equal(nvml_client_cpu_ns(client), 0);
    setenv("LD_LIBRARY_PATH", kept, 1);
    script_write("nvmlDeviceGetCount_v2 - 1\n");
    turn_ahead(client, NVML_RETRY_NS / 2);
    assert_false(nvml_client_has_library(client));
    turn_ahead(client, NVML_RETRY_NS + SECOND_NS);
    turn_until(client, &polls, 1); /* it was installed since */
    nvml_client_free(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_polls_follow_each_other),
        cmocka_unit_test(test_a_call_that_hangs_ends_the_process_and_is_named),
        cmocka_unit_test(test_initialization_may_take_longer),
        cmocka_unit_test(test_a_failure_is_reported_once),
        cmocka_unit_test(test_a_failure_of_another_kind_is_reported),
        cmocka_unit_test(test_a_process_that_cannot_be_started_is_reported),
        cmocka_unit_test(test_without_the_library_nothing_is_started),
    };
    return cmocka_run_group_tests(tests, script_begin, script_end);
}
