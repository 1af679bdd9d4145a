/* A poll reads what the library has, and what the library does not know stays unknown. */
#include "gpu_script.h"
#include "sources/gpu/nvml_library.h"
#include "sources/gpu/nvml_poll.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define KEPT_MAX 512

static struct nvml_progress progress;
static struct gpu_device devices[GPU_DEVICES_MAX];
static struct gpu_process processes[KEPT_MAX];
static struct gpu_poll last_poll;
static size_t device_count, process_count;

static void keep_record(void *context, const struct record_header *record)
{
    (void)context;
    if (record->kind == RECORD_GPU_DEVICE)
        devices[device_count++] = *(const struct gpu_device *)record;
    else if (record->kind == RECORD_GPU_PROCESS)
        processes[process_count++] = *(const struct gpu_process *)record;
    else
        last_poll = *(const struct gpu_poll *)record;
}

static struct nvml_poller begin(void)
{
    struct nvml_poller p = {.progress = &progress};
    char path[PATH_MAX];
    assert_true(nvml_library_find(path));
    assert_int_equal(nvml_library_load(path, &p.functions), 0);
    assert_int_equal(nvml_poller_init(&p), NVML_OK);
    return p;
}

static int poll_again(struct nvml_poller *p, const char *script)
{
    script_write(script);
    device_count = process_count = 0;
    return nvml_poller_poll(p, keep_record, NULL);
}

static void check_value(const struct gpu_device *d, enum gpu_value value, uint64_t expected)
{
    assert_true(d->known & 1ull << value);
    assert_int_equal(d->values[value], expected);
}

static void test_all_values_are_read(void **state)
{
    (void)state;
    script_write("");
    struct nvml_poller p = begin();
    assert_int_equal(poll_again(&p, "nvmlDeviceGetCount_v2 - 2\n"
                                    "nvmlDeviceGetName 0 NVIDIA H100 80GB HBM3\n"
                                    "nvmlDeviceGetUtilizationRates 0 83 41\n"
                                    "nvmlDeviceGetEncoderUtilization 0 5\n"
                                    "nvmlDeviceGetDecoderUtilization 0 6\n"
                                    "nvmlDeviceGetMemoryInfo_v2 0 85899345920 1 2 3\n"
                                    "nvmlDeviceGetPowerUsage 0 612500\n"
                                    "nvmlDeviceGetEnforcedPowerLimit 0 700000\n"
                                    "nvmlDeviceGetTotalEnergyConsumption 0 123456789012\n"
                                    "nvmlDeviceGetTemperature 0 64\n"
                                    "nvmlDeviceGetClockInfo 0 1 1980\n"
                                    "nvmlDeviceGetClockInfo 0 2 2619\n"
                                    "nvmlDeviceGetCurrentClocksEventReasons 0 0x44\n"
                                    "nvmlDeviceGetCurrPcieLinkGeneration 0 5\n"
                                    "nvmlDeviceGetCurrPcieLinkWidth 0 16\n"
                                    "nvmlDeviceGetPcieReplayCounter 0 7\n"
                                    "nvmlDeviceGetTotalEccErrors 0 0 11\n"
                                    "nvmlDeviceGetTotalEccErrors 0 1 0\n"
                                    "nvmlDeviceGetRemappedRows 0 1 2 0 1\n"
                                    "nvmlDeviceGetFieldValues 0 82 72\n"
                                    "nvmlDeviceGetFieldValues 0 138 3\n"
                                    "nvmlDeviceGetFieldValues 0 230 1\n"),
                     NVML_OK);
    assert_int_equal(device_count, 2);
    assert_int_equal(last_poll.devices, 2);
    assert_string_equal(last_poll.driver, "575.57.08");
    assert_string_equal(devices[0].uuid, "GPU-fake-0");
    assert_string_equal(devices[0].name, "NVIDIA H100 80GB HBM3");
    assert_string_equal(devices[1].pci, "0000:11:00.0");
    static const struct {
        enum gpu_value value;
        uint64_t expected;
    } values[] = {
        {GPU_UTILIZATION, 83},
        {GPU_MEMORY_BUSY, 41},
        {GPU_ENCODER, 5},
        {GPU_DECODER, 6},
        {GPU_MEMORY_TOTAL, 85899345920},
        {GPU_MEMORY_RESERVED, 1},
        {GPU_MEMORY_FREE, 2},
        {GPU_MEMORY_USED, 3},
        {GPU_POWER, 612500},
        {GPU_POWER_LIMIT, 700000},
        {GPU_ENERGY, 123456789012},
        {GPU_TEMPERATURE, 64},
        {GPU_CLOCK_SM, 1980},
        {GPU_CLOCK_MEMORY, 2619},
        {GPU_CLOCK_REASONS, 0x44},
        {GPU_PCIE_GENERATION, 5},
        {GPU_PCIE_WIDTH, 16},
        {GPU_PCIE_REPLAYS, 7},
        {GPU_ECC_CORRECTED, 11},
        {GPU_ECC_UNCORRECTED, 0},
        {GPU_REMAPPED_CORRECTABLE, 1},
        {GPU_REMAPPED_UNCORRECTABLE, 2},
        {GPU_REMAP_PENDING, 0},
        {GPU_REMAP_FAILED, 1},
        {GPU_MEMORY_TEMPERATURE, 72},
        {GPU_NVLINK_SENT, 3072},
        {GPU_RECOVERY_ACTION, 1},
    };
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        check_value(&devices[0], values[i].value, values[i].expected);
    assert_int_equal(devices[1].known, 0);
    assert_int_equal(devices[1].status, NVML_OK);
}

/* Peers export 0 for what an error hides, as after an Xid 31. */
static void test_errors_and_blanks_are_unknown_and_not_zero(void **state)
{
    (void)state;
    script_write("");
    struct nvml_poller p = begin();
    assert_int_equal(poll_again(&p, "nvmlDeviceGetCount_v2 - 1\n"
                                    "nvmlDeviceGetUtilizationRates 0 error 999\n"
                                    "nvmlDeviceGetEncoderUtilization 0 4294967295\n"
                                    "nvmlDeviceGetDecoderUtilization 0 120\n"
                                    "nvmlDeviceGetPowerUsage 0 error 3\n"
                                    "nvmlDeviceGetTotalEnergyConsumption 0 9223372036854775794\n"
                                    "nvmlDeviceGetTemperature 0 4294967295\n"
                                    "nvmlDeviceGetTotalEccErrors 0 0 error 3\n"
                                    "nvmlDeviceGetFieldValues 0 82 error 3\n"
                                    "nvmlDeviceGetFieldValues 0 138 18446744073709551615\n"),
                     NVML_OK);
    assert_int_equal(devices[0].known, 0);
    assert_int_equal(devices[0].status, NVML_OK);
}

/* A lost device is no longer asked: each of its calls may take seconds. */
static void test_a_lost_device_keeps_its_identity_and_has_no_values(void **state)
{
    (void)state;
    script_write("");
    struct nvml_poller p = begin();
    assert_int_equal(poll_again(&p, "nvmlDeviceGetCount_v2 - 1\nnvmlDeviceGetTemperature 0 50\n"), NVML_OK);
    assert_int_equal(poll_again(&p, "nvmlDeviceGetCount_v2 - 1\nnvmlDeviceGetHandleByIndex_v2 0 error 15\n"
                                    "nvmlDeviceGetTemperature 0 50\n"),
                     NVML_OK);
    assert_int_equal(devices[0].status, NVML_GPU_IS_LOST);
    assert_string_equal(devices[0].uuid, "GPU-fake-0");
    assert_int_equal(devices[0].known, 0);
    assert_int_equal(poll_again(&p, "nvmlDeviceGetCount_v2 - 1\nnvmlDeviceGetUtilizationRates 0 error 15\n"
                                    "nvmlDeviceGetTemperature 0 50\n"),
                     NVML_OK);
    assert_int_equal(devices[0].status, NVML_GPU_IS_LOST);
    assert_int_equal(devices[0].known, 0);
}

/* Two processes share the device by time: each has its own use, and the mean of several samples of it. */
static void test_processes_have_their_memory_and_their_own_use(void **state)
{
    static const char lists[] = "nvmlDeviceGetCount_v2 - 1\n"
                                "process 0 41 1000\nprocess 0 42 18446744073709551615 3\ngraphics 0 41 1000\n";
    char script[512];
    (void)state;
    script_write("");
    struct nvml_poller p = begin();
    snprintf(script, sizeof(script), "%ssample 0 41 60 100\nsample 0 41 20 200\nsample 0 42 0 200\n", lists);
    assert_int_equal(poll_again(&p, script), NVML_OK);
    assert_int_equal(process_count, 2);
    assert_int_equal(last_poll.processes, 2);
    assert_int_equal(processes[0].h.pid, 41);
    assert_int_equal(processes[0].memory, 1000);
    assert_int_equal(processes[0].busy, 40);
    assert_int_equal(processes[0].instance, GPU_NO_INSTANCE);
    assert_int_equal(processes[1].memory, UINT64_MAX);
    assert_int_equal(processes[1].busy, 0);
    assert_int_equal(processes[1].instance, 3);
    assert_int_equal(poll_again(&p, script), NVML_OK); /* no newer sample */
    assert_int_equal(processes[0].busy, UINT32_MAX);
}

/* The library lists all processes of a device or none. */
static void test_processes_beyond_the_limit_are_counted(void **state)
{
    enum { MANY = GPU_PROCESSES_MAX + 2, SOME = 100 };
    static char script[64 * (MANY + 2 * SOME)];
    size_t used = (size_t)snprintf(script, sizeof(script), "nvmlDeviceGetCount_v2 - 3\n");
    (void)state;
    for (int i = 0; i < MANY; i++)
        used += (size_t)snprintf(script + used, sizeof(script) - used, "process 0 %d 1000\n", 1000 + i);
    for (int i = 0; i < 2 * SOME; i++)
        used += (size_t)snprintf(script + used, sizeof(script) - used, "process %d %d 1000\n", 1 + i % 2, 2000 + i);
    script_write("");
    struct nvml_poller p = begin();
    assert_int_equal(poll_again(&p, script), NVML_OK);
    assert_int_equal(process_count, GPU_PROCESSES_MAX);
    assert_int_equal(processes[0].device, 1);
    assert_int_equal(last_poll.processes, MANY + 2 * SOME);
}

static void test_instances_of_mig_follow_their_device_with_their_memory(void **state)
{
    (void)state;
    script_write("");
    struct nvml_poller p = begin();
    assert_int_equal(poll_again(&p, "nvmlDeviceGetCount_v2 - 1\nnvmlDeviceGetTemperature 0 50\n"
                                    "nvmlDeviceGetMigMode 0 1\nnvmlDeviceGetMaxMigDeviceCount 0 7\n"
                                    "nvmlDeviceGetMigDeviceHandleByIndex 0 2 100\nnvmlDeviceGetGpuInstanceId 100 5\n"
                                    "nvmlDeviceGetUUID 100 MIG-1\nnvmlDeviceGetTemperature 100 50\n"
                                    "nvmlDeviceGetMemoryInfo_v2 100 10 1 2 3\nprocess 0 41 1000 5\n"),
                     NVML_OK);
    assert_int_equal(device_count, 2);
    assert_int_equal(devices[0].instance, GPU_NO_INSTANCE);
    assert_int_equal(devices[1].index, 0);
    assert_int_equal(devices[1].instance, 5);
    assert_string_equal(devices[1].uuid, "MIG-1");
    assert_string_equal(devices[1].pci, devices[0].pci);
    check_value(&devices[1], GPU_MEMORY_USED, 3);
    assert_false(devices[1].known & 1ull << GPU_TEMPERATURE);
    assert_int_equal(processes[0].instance, 5);
}

/* Metrics of GPM are those of the time since the poll before. */
static void test_gpm_needs_two_polls(void **state)
{
    static const char script[] = "nvmlDeviceGetCount_v2 - 2\nnvmlGpmQueryDeviceSupport 0 1\n"
                                 "nvmlGpmQueryDeviceSupport 1 0\nnvmlGpmMetricsGet 0 1 99000\n"
                                 "nvmlGpmMetricsGet 0 5 31250\nnvmlGpmMetricsGet 0 10 error 3\n";
    (void)state;
    script_write("");
    struct nvml_poller p = begin();
    assert_int_equal(poll_again(&p, script), NVML_OK);
    assert_int_equal(devices[0].known, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(poll_again(&p, script), NVML_OK);
        check_value(&devices[0], GPU_ENGINE_ACTIVE, 9900);
        check_value(&devices[0], GPU_TENSOR_ACTIVE, 3125);
        assert_false(devices[0].known & 1ull << GPU_MEMORY_ACTIVE);
        assert_int_equal(devices[1].known, 0);
    }
}

static void test_a_failure_of_the_library_is_its_error(void **state)
{
    (void)state;
    script_write("");
    struct nvml_poller p = begin();
    assert_int_equal(poll_again(&p, "nvmlDeviceGetCount_v2 - error 999\n"), 999);
    assert_int_equal(device_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_values_are_read),
        cmocka_unit_test(test_errors_and_blanks_are_unknown_and_not_zero),
        cmocka_unit_test(test_a_lost_device_keeps_its_identity_and_has_no_values),
        cmocka_unit_test(test_processes_have_their_memory_and_their_own_use),
        cmocka_unit_test(test_processes_beyond_the_limit_are_counted),
        cmocka_unit_test(test_instances_of_mig_follow_their_device_with_their_memory),
        cmocka_unit_test(test_gpm_needs_two_polls),
        cmocka_unit_test(test_a_failure_of_the_library_is_its_error),
    };
    return cmocka_run_group_tests(tests, script_begin, script_end);
}
