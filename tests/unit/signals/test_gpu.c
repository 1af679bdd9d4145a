/* Polls of GPUs become metrics and events: what is unknown has no metric, and each change is one event. */
#include "model/metric.h"
#include "signal_events_fixture.h"
#include "signals/gpu/gpu_events.h"
#include "signals/gpu/xid_catalogue.h"
#include "sources/gpu/gpu.h"
#include "sources/gpu/nvml.h"

#include "probes/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SECOND_NS 1000000000ull

static char emitted[32768];
static const struct signal *gpu;
static void *self;
static uint64_t now_ns;

static void keep_event(void *pipeline, const struct node_event *event)
{
    size_t used = strlen(emitted);
    (void)pipeline;
    used += event_text(event, emitted + used, sizeof(emitted) - used);
    snprintf(emitted + used, sizeof(emitted) - used, "\n");
}

static struct signal_services services = {.emit_event = keep_event};

static int begin(void **state)
{
    (void)state;
    emitted[0] = '\0';
    now_ns = 90 * SECOND_NS;
    gpu = signal_named("gpu");
    return gpu->create(&services, gpu->defaults, NULL, &self);
}

static int end(void **state)
{
    (void)state;
    gpu->destroy(self);
    return 0;
}

static void take(void *record)
{
    struct record_header *h = record;
    h->time_ns = now_ns;
    assert_true(signals_check_record(h));
    for (const struct record_type *type = gpu->records; type->kind; type++)
        if (type->kind == h->kind)
            type->take(self, h);
}

static struct gpu_device device(unsigned index)
{
    struct gpu_device d = {.h = {.size_bytes = sizeof(d), .kind = RECORD_GPU_DEVICE},
                           .index = index,
                           .instance = GPU_NO_INSTANCE,
                           .name = "NVIDIA H100"};
    snprintf(d.uuid, sizeof(d.uuid), "GPU-%u", index);
    snprintf(d.pci, sizeof(d.pci), "0000:3%u:00.0", index);
    return d;
}

static struct gpu_device with(struct gpu_device d, enum gpu_value value, uint64_t number)
{
    d.known |= 1ull << value;
    d.values[value] = number;
    return d;
}

static void end_poll(void)
{
    struct gpu_poll end = {.h = {.size_bytes = sizeof(end), .kind = RECORD_GPU_POLL}, .devices = 1};
    take(&end);
    now_ns += 5 * SECOND_NS;
}

static void poll_of(struct gpu_device d)
{
    take(&d);
    end_poll();
}

static void expect_events(const char *expected)
{
    assert_string_equal(emitted, expected);
    emitted[0] = '\0';
}

/* -1: there is no such point. */
static double metric(const char *name, const char *label, const char *value)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    assert_int_equal(metric_set_new(&set), 0);
    gpu->metrics(self, set);
    assert_int_equal(metric_set_error(set), 0);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family f = metric_set_family(set, i);
        for (size_t n = 0; strcmp(f.name, name) == 0 && n < f.point_count; n++)
            for (size_t k = 0; k < f.points[n].label_count; k++)
                if (strcmp(f.points[n].labels[k].name, label) == 0 && strcmp(f.points[n].labels[k].value, value) == 0)
                    return f.points[n].value;
    }
    return -1;
}

static size_t point_count(const char *name, const char *label, const char *value)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    size_t count = 0;
    assert_int_equal(metric_set_new(&set), 0);
    gpu->metrics(self, set);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family f = metric_set_family(set, i);
        for (size_t n = 0; strcmp(f.name, name) == 0 && n < f.point_count; n++)
            for (size_t k = 0; k < f.points[n].label_count; k++)
                count +=
                    strcmp(f.points[n].labels[k].name, label) == 0 && strcmp(f.points[n].labels[k].value, value) == 0;
    }
    return count;
}

static size_t family_count(void)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    assert_int_equal(metric_set_new(&set), 0);
    gpu->metrics(self, set);
    return metric_set_families(set);
}

static void expect_metric(const char *name, const char *label, const char *value, double expected)
{
    const double found = metric(name, label, value);
    assert_true(found > expected - 1e-6 && found < expected + 1e-6);
}

static void test_without_a_gpu_there_is_no_metric(void **state)
{
    struct gpu_driver absent = {.h = {.size_bytes = sizeof(absent), .kind = RECORD_GPU_DRIVER},
                                .state = GPU_DRIVER_FAILS,
                                .error = NVML_DRIVER_NOT_LOADED};
    (void)state;
    assert_int_equal(family_count(), 0);
    take(&absent);
    assert_int_equal(family_count(), 0);
    absent.error = NVML_LIBRARY_NOT_FOUND;
    take(&absent);
    assert_int_equal(family_count(), 0);
    expect_events("");
}

static void test_values_are_metrics_in_base_units(void **state)
{
    struct gpu_device d = device(0);
    (void)state;
    d = with(d, GPU_UTILIZATION, 83);
    d = with(d, GPU_DECODER, 7);
    d = with(d, GPU_MEMORY_USED, 4096);
    d = with(d, GPU_POWER, 612500);
    d = with(d, GPU_ENERGY, 5000);
    d = with(d, GPU_MEMORY_TEMPERATURE, 72);
    d = with(d, GPU_CLOCK_SM, 1980);
    d = with(d, GPU_TENSOR_ACTIVE, 3125);
    d = with(d, GPU_ECC_CORRECTED, 3);
    d = with(d, GPU_CLOCK_REASONS, GPU_CLOCK_SW_POWER_CAP);
    poll_of(d);
    expect_metric("hw_gpu_utilization_ratio", "hw_gpu_task", "general", 0.83);
    expect_metric("hw_gpu_utilization_ratio", "hw_gpu_task", "decoder", 0.07);
    expect_metric("hw_gpu_memory_usage_bytes", "hw_id", "GPU-0", 4096);
    expect_metric("hw_power_watts", "hw_type", "gpu", 612.5);
    expect_metric("hw_energy_joules", "gpu", "0", 5);
    expect_metric("hw_temperature_celsius", "hw_sensor_location", "memory", 72);
    expect_metric("sonde_gpu_clock_hertz", "clock", "sm", 1.98e9);
    expect_metric("sonde_gpu_tensor_active_ratio", "gpu", "0", 0.3125);
    expect_metric("hw_errors", "error_type", "ecc_corrected", 3);
    expect_metric("sonde_gpu_throttled", "reason", "power_cap", 1);
    expect_metric("sonde_gpu_throttled", "reason", "hw_thermal", 0);
    expect_metric("hw_status", "hw_state", "ok", 1);
    expect_events(""); /* a limit of power is no event */
}

/* After an Xid 31, the driver's calls fail for a while. */
static void test_values_that_become_unknown_have_no_metric(void **state)
{
    struct gpu_xid xid = {.h = {.size_bytes = sizeof(xid), .kind = RECORD_GPU_XID}, .code = 31, .pci = "0000:30:00"};
    (void)state;
    poll_of(with(device(0), GPU_UTILIZATION, 83));
    take(&xid);
    poll_of(device(0));
    expect_metric("hw_gpu_utilization_ratio", "hw_gpu_task", "general", -1);
    expect_metric("hw_status", "hw_state", "ok", 1);
}

static void test_processes_that_share_a_device_have_their_own_use(void **state)
{
    struct gpu_device d = with(device(0), GPU_UTILIZATION, 100);
    struct gpu_process one = {.h = {.size_bytes = sizeof(one), .kind = RECORD_GPU_PROCESS, .pid = 41, .tid = 41},
                              .instance = GPU_NO_INSTANCE,
                              .memory = 1000,
                              .busy = 60};
    struct gpu_process other = one, unknown = one;
    (void)state;
    other.h.pid = 42;
    other.busy = 40;
    unknown.h.pid = 43;
    unknown.busy = UINT32_MAX;
    unknown.memory = UINT64_MAX;
    take(&d);
    take(&one);
    take(&other);
    take(&unknown);
    end_poll();
    expect_metric("hw_gpu_utilization_ratio", "gpu", "0", 1);
    expect_metric("sonde_gpu_process_utilization_ratio", "pid", "41", 0.6);
    expect_metric("sonde_gpu_process_utilization_ratio", "pid", "42", 0.4);
    expect_metric("sonde_gpu_process_memory_bytes", "pid", "42", 1000);
    expect_metric("sonde_gpu_process_utilization_ratio", "pid", "43", -1);
    expect_metric("sonde_gpu_process_memory_bytes", "pid", "43", -1);
}

/* A gauge of the last Xid never falls, and hides an Xid 62 behind the 45 that follows it. */
static void test_each_xid_is_an_event_and_counts_once(void **state)
{
    struct gpu_xid xid = {.h = {.size_bytes = sizeof(xid), .kind = RECORD_GPU_XID, .pid = 4711, .tid = 4711},
                          .code = 62,
                          .pci = "0000:30:00",
                          .process = "train",
                          .text = "2027(2d08)"};
    (void)state;
    poll_of(device(0));
    take(&xid);
    expect_events("gpu.xid: GPU 0 (NVIDIA H100, 0000:30:00.0): Xid 62, the GPU's internal microcontroller halted, of "
                  "train (pid 4711): 2027(2d08). What to do: stop what uses the GPU and reset it (nvidia-smi "
                  "--gpu-reset), or restart the machine; hw.id=GPU-0; hw.name=NVIDIA H100; pci.address=0000:30:00.0; "
                  "xid=62; process.pid=4711; process.command=train; action=stop what uses the GPU and reset it "
                  "(nvidia-smi --gpu-reset), or restart the machine\n");
    xid.code = 45;
    take(&xid);
    take(&xid);
    poll_of(device(0));
    poll_of(device(0));
    expect_metric("sonde_gpu_xids", "xid", "62", 1);
    expect_metric("sonde_gpu_xids", "xid", "45", 2);
    expect_metric("sonde_gpu_xids", "hw_id", "GPU-0", 1);
}

static void test_an_xid_of_an_unknown_device_names_its_address(void **state)
{
    struct gpu_xid xid = {.h = {.size_bytes = sizeof(xid), .kind = RECORD_GPU_XID}, .code = 7777, .pci = "0000:99:00"};
    (void)state;
    take(&xid);
    expect_events("gpu.xid: GPU at 0000:99:00: Xid 7777, an error that this version does not know. What to do: look it "
                  "up in NVIDIA's list of Xid errors; pci.address=0000:99:00; xid=7777; action=look it up in NVIDIA's "
                  "list of Xid errors\n");
    expect_metric("sonde_gpu_xids", "xid", "7777", 1);
}

static void test_a_device_that_is_lost_or_vanishes_is_one_event(void **state)
{
    struct gpu_device lost = device(0), other = device(1);
    (void)state;
    poll_of(device(0));
    lost.status = NVML_GPU_IS_LOST;
    poll_of(lost);
    poll_of(lost);
    expect_events("gpu.lost: GPU 0 (NVIDIA H100, 0000:30:00.0) is lost: it has fallen off the bus or does not answer; "
                  "hw.id=GPU-0; hw.name=NVIDIA H100; pci.address=0000:30:00.0\n");
    expect_metric("hw_status", "hw_state", "failed", 1);
    poll_of(device(0));
    expect_metric("hw_status", "hw_state", "ok", 1);
    poll_of(other);
    poll_of(other);
    expect_events("gpu.lost: GPU 0 (NVIDIA H100, 0000:30:00.0) is lost: the driver does not list it any more; "
                  "hw.id=GPU-0; hw.name=NVIDIA H100; pci.address=0000:30:00.0\n");
    poll_of(device(0));
    expect_events("gpu.lost: GPU 1 (NVIDIA H100, 0000:31:00.0) is lost: the driver does not list it any more; "
                  "hw.id=GPU-1; hw.name=NVIDIA H100; pci.address=0000:31:00.0\n");
}

static void test_a_lost_device_has_its_last_xid(void **state)
{
    struct gpu_device lost = device(0);
    struct gpu_xid xid = {.h = {.size_bytes = sizeof(xid), .kind = RECORD_GPU_XID}, .code = 79, .pci = "0000:30:00"};
    (void)state;
    poll_of(device(0));
    take(&xid);
    emitted[0] = '\0';
    now_ns += 2 * SECOND_NS;
    lost.status = NVML_GPU_IS_LOST;
    poll_of(lost);
    expect_events(
        "gpu.lost: GPU 0 (NVIDIA H100, 0000:30:00.0) is lost: it has fallen off the bus or does not answer; "
        "2.00 s before, the driver logged Xid 79: the GPU has fallen off the bus; hw.id=GPU-0; hw.name=NVIDIA "
        "H100; pci.address=0000:30:00.0\n");
    poll_of(device(0));
    now_ns += GPU_XID_RELATED_NS;
    poll_of(lost);
    assert_null(strstr(emitted, "Xid"));
}

/* A process sonde-gpu that starts after the loss cannot read the device's identity. */
static void test_a_lost_device_without_identity_takes_over_the_earlier_one(void **state)
{
    struct gpu_device lost = device(0);
    (void)state;
    lost.status = NVML_GPU_IS_LOST;
    lost.uuid[0] = lost.name[0] = lost.pci[0] = '\0';
    poll_of(device(0));
    for (int i = 0; i < 3; i++)
        poll_of(lost);
    expect_events("gpu.lost: GPU 0 (NVIDIA H100, 0000:30:00.0) is lost: it has fallen off the bus or does not answer; "
                  "hw.id=GPU-0; hw.name=NVIDIA H100; pci.address=0000:30:00.0\n");
    expect_metric("hw_status", "hw_state", "failed", 1);
    assert_int_equal(point_count("hw_status", "hw_state", "failed"), 1);
    poll_of(device(0));
    expect_events("");
    assert_int_equal(point_count("hw_status", "hw_state", "failed"), 1);
    expect_metric("hw_status", "hw_state", "failed", 0);
}

static void test_a_device_that_was_never_identified_is_lost_once(void **state)
{
    struct gpu_device lost = device(0), other = device(1), back = device(0);
    (void)state;
    lost.status = NVML_GPU_IS_LOST;
    lost.uuid[0] = lost.name[0] = lost.pci[0] = '\0';
    for (int i = 0; i < 3; i++) {
        take(&lost);
        poll_of(other);
    }
    expect_events("gpu.lost: GPU 0 is lost: it has fallen off the bus or does not answer\n");
    take(&back);
    poll_of(other);
    expect_events("");
}

/* After the loss of GPU-0 the driver can list GPU-1 at another index. */
static void test_an_identity_stays_with_the_device_that_has_it(void **state)
{
    struct gpu_device lost = device(0), moved = device(0);
    (void)state;
    poll_of(device(0));
    lost.status = NVML_GPU_IS_LOST;
    lost.uuid[0] = '\0';
    moved.index = 1;
    take(&lost);
    poll_of(moved);
    expect_metric("hw_status", "hw_id", "GPU-0", 1);
    assert_int_equal(point_count("hw_status", "hw_id", "GPU-0"), point_count("hw_status", "gpu", "1"));
}

/* It has series of its own, and its end is no loss. */
static void test_an_instance_of_mig_has_its_label(void **state)
{
    struct gpu_device whole = device(0), instance = with(device(0), GPU_MEMORY_USED, 4096);
    (void)state;
    instance.instance = 5;
    snprintf(instance.uuid, sizeof(instance.uuid), "MIG-1");
    take(&whole);
    take(&instance);
    end_poll();
    expect_metric("hw_gpu_memory_usage_bytes", "gpu_instance", "5", 4096);
    expect_metric("hw_gpu_memory_usage_bytes", "hw_id", "MIG-1", 4096);
    poll_of(whole);
    expect_events("");
    expect_metric("hw_status", "hw_id", "MIG-1", -1);
    expect_metric("hw_status", "hw_id", "GPU-0", 1);
}

static void test_growing_errors_and_lasting_states_are_events(void **state)
{
    struct gpu_device d = with(device(0), GPU_ECC_UNCORRECTED, 5);
    (void)state;
    poll_of(d); /* they may be from last week */
    expect_events("");
    d = with(d, GPU_ECC_UNCORRECTED, 7);
    poll_of(d);
    poll_of(d);
    expect_events("gpu.ecc: GPU 0 (NVIDIA H100, 0000:30:00.0): 2 uncorrected ECC errors of its memory; hw.id=GPU-0; "
                  "hw.name=NVIDIA H100; pci.address=0000:30:00.0; count=2\n");
    d = with(d, GPU_REMAP_PENDING, 1);
    poll_of(d);
    poll_of(d);
    expect_events("gpu.row_remap: GPU 0 (NVIDIA H100, 0000:30:00.0): a row of its memory is damaged; the next reset "
                  "replaces it; hw.id=GPU-0; hw.name=NVIDIA H100; pci.address=0000:30:00.0\n");
    d = with(d, GPU_RECOVERY_ACTION, 1);
    poll_of(d);
    poll_of(d);
    expect_events("gpu.recovery_needed: GPU 0 (NVIDIA H100, 0000:30:00.0) needs a reset, says its driver; hw.id=GPU-0; "
                  "hw.name=NVIDIA H100; pci.address=0000:30:00.0\n");
}

static void expect_state(struct gpu_device d, const char *expected)
{
    assert_string_equal(gpu_device_state_text(&d), expected);
}

static void test_the_state_in_words_is_the_worst(void **state)
{
    (void)state;
    struct gpu_device d = device(0);
    expect_state(d, "ok");
    d = with(d, GPU_CLOCK_REASONS, GPU_CLOCK_HW_SLOWDOWN);
    expect_state(d, "throttled");
    d = with(d, GPU_CLOCK_REASONS, GPU_CLOCK_HW_SLOWDOWN | GPU_CLOCK_SW_THERMAL);
    expect_state(d, "throttled: too hot");
    d = with(d, GPU_REMAP_PENDING, 1);
    expect_state(d, "damaged memory, replaced by a reset");
    d = with(d, GPU_REMAP_FAILED, 1);
    expect_state(d, "damaged memory");
    d = with(d, GPU_RECOVERY_ACTION, 1);
    expect_state(d, "its driver wants a reset or a restart");
    d.status = 15;
    expect_state(d, "lost");
}

static void test_throttling_now_and_then_is_one_event(void **state)
{
    const struct gpu_device hot = with(device(0), GPU_CLOCK_REASONS, GPU_CLOCK_HW_SLOWDOWN | GPU_CLOCK_HW_THERMAL);
    (void)state;
    poll_of(with(device(0), GPU_CLOCK_REASONS, 0));
    for (int i = 0; i < 10; i++)
        poll_of(i % 2 ? device(0) : hot);
    expect_events("gpu.throttled: GPU 0 (NVIDIA H100, 0000:30:00.0) has reduced its clocks, because it is too hot "
                  "(hardware slowdown); hw.id=GPU-0; hw.name=NVIDIA H100; pci.address=0000:30:00.0\n");
}

static void test_a_driver_that_hangs_is_an_event_and_hides_old_values(void **state)
{
    struct gpu_driver driver = {.h = {.size_bytes = sizeof(driver), .kind = RECORD_GPU_DRIVER},
                                .state = GPU_DRIVER_HANGS,
                                .elapsed_ns = 6 * SECOND_NS,
                                .device = 0,
                                .call = "nvmlDeviceGetPowerUsage"};
    struct gpu_device unfinished = device(1);
    (void)state;
    poll_of(with(device(0), GPU_UTILIZATION, 83));
    take(&unfinished);
    take(&driver);
    expect_events("gpu.driver_hung: NVIDIA's driver hangs: nvmlDeviceGetPowerUsage for GPU 0 has not returned for 6.00 "
                  "s; call=nvmlDeviceGetPowerUsage; gpu=0\n");
    assert_int_equal(family_count(), 1);
    driver.state = GPU_DRIVER_RESPONDS;
    driver.elapsed_ns = 0;
    poll_of(with(device(0), GPU_UTILIZATION, 10));
    take(&driver);
    expect_events("gpu.driver_responds: NVIDIA's driver responds again\n");
    expect_metric("hw_gpu_utilization_ratio", "gpu", "0", 0.1);
    expect_metric("hw_status", "gpu", "1", -1);
    driver.state = GPU_DRIVER_FAILS;
    driver.error = 18;
    snprintf(driver.message, sizeof(driver.message), "Driver/library version mismatch");
    take(&driver);
    expect_events("gpu.driver_failed: NVIDIA's driver refuses all calls: Driver/library version mismatch (error 18); "
                  "error=18\n");
}

/* The process hangs at GPU 2 each time it is started, and only the first hang is a record. */
static void test_unfinished_polls_do_not_add_up(void **state)
{
    struct gpu_device devices[] = {device(0), device(1), device(2)};
    struct gpu_poll none = {.h = {.size_bytes = sizeof(none), .kind = RECORD_GPU_POLL}};
    (void)state;
    for (int i = 0; i < 3; i++) {
        take(&devices[0]);
        take(&devices[1]);
    }
    for (int i = 0; i < 3; i++)
        take(&devices[i]);
    end_poll();
    assert_int_equal(point_count("hw_status", "gpu", "0"), 2); /* its states "ok" and "failed" */
    assert_int_equal(point_count("hw_status", "gpu", "1"), 2);
    take(&devices[0]);
    take(&devices[1]);
    poll_of(device(0));
    expect_events("gpu.lost: GPU 1 (NVIDIA H100, 0000:31:00.0) is lost: the driver does not list it any more; "
                  "hw.id=GPU-1; hw.name=NVIDIA H100; pci.address=0000:31:00.0\n"
                  "gpu.lost: GPU 2 (NVIDIA H100, 0000:32:00.0) is lost: the driver does not list it any more; "
                  "hw.id=GPU-2; hw.name=NVIDIA H100; pci.address=0000:32:00.0\n");
    take(&devices[0]);
    take(&none);
    expect_events("gpu.lost: GPU 0 (NVIDIA H100, 0000:30:00.0) is lost: the driver does not list it any more; "
                  "hw.id=GPU-0; hw.name=NVIDIA H100; pci.address=0000:30:00.0\n");
}

static void test_a_failure_of_another_kind_is_an_event(void **state)
{
    struct gpu_driver driver = {.h = {.size_bytes = sizeof(driver), .kind = RECORD_GPU_DRIVER},
                                .state = GPU_DRIVER_FAILS,
                                .device = GPU_NO_INSTANCE,
                                .error = NVML_DRIVER_NOT_LOADED,
                                .message = "Driver Not Loaded"};
    (void)state;
    poll_of(device(0));
    take(&driver);
    take(&driver);
    expect_events("gpu.driver_failed: NVIDIA's driver refuses all calls: Driver Not Loaded (error 9); error=9\n");
    driver.error = 18;
    snprintf(driver.message, sizeof(driver.message), "Driver/library version mismatch");
    take(&driver);
    take(&driver);
    expect_events("gpu.driver_failed: NVIDIA's driver refuses all calls: Driver/library version mismatch (error 18); "
                  "error=18\n");
}

/* A crash of sonde-gpu and a library that cannot be loaded are no answer of the driver. */
static void test_a_driver_that_is_not_polled_does_not_refuse_calls(void **state)
{
    struct gpu_driver driver = {.h = {.size_bytes = sizeof(driver), .kind = RECORD_GPU_DRIVER},
                                .state = GPU_DRIVER_FAILS,
                                .device = GPU_NO_INSTANCE,
                                .message = "the process sonde-gpu ended unexpectedly"};
    (void)state;
    poll_of(device(0));
    take(&driver);
    expect_events("gpu.driver_failed: NVIDIA's driver is not polled: the process sonde-gpu ended unexpectedly\n");
    driver.error = NVML_LIBRARY_NOT_FOUND;
    driver.message[0] = '\0';
    take(&driver);
    expect_events("gpu.driver_failed: NVIDIA's driver is not polled: its library libnvidia-ml.so.1 cannot be loaded; "
                  "error=12\n");
}

static void test_malformed_records_are_rejected(void **state)
{
    struct gpu_device d = device(0), small = device(0);
    struct gpu_driver driver = {.h = {.size_bytes = sizeof(driver), .kind = RECORD_GPU_DRIVER},
                                .state = GPU_DRIVER_STATES};
    (void)state;
    memset(d.uuid, 'x', sizeof(d.uuid));
    small.h.size_bytes -= 8;
    assert_false(signals_check_record(&d.h));
    assert_false(signals_check_record(&small.h));
    assert_false(signals_check_record(&driver.h));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_without_a_gpu_there_is_no_metric),
        TEST(test_values_are_metrics_in_base_units),
        TEST(test_values_that_become_unknown_have_no_metric),
        TEST(test_processes_that_share_a_device_have_their_own_use),
        TEST(test_each_xid_is_an_event_and_counts_once),
        TEST(test_an_xid_of_an_unknown_device_names_its_address),
        TEST(test_a_device_that_is_lost_or_vanishes_is_one_event),
        TEST(test_a_lost_device_has_its_last_xid),
        TEST(test_a_lost_device_without_identity_takes_over_the_earlier_one),
        TEST(test_a_device_that_was_never_identified_is_lost_once),
        TEST(test_an_identity_stays_with_the_device_that_has_it),
        TEST(test_an_instance_of_mig_has_its_label),
        TEST(test_growing_errors_and_lasting_states_are_events),
        TEST(test_the_state_in_words_is_the_worst),
        TEST(test_throttling_now_and_then_is_one_event),
        TEST(test_a_driver_that_hangs_is_an_event_and_hides_old_values),
        TEST(test_unfinished_polls_do_not_add_up),
        TEST(test_a_failure_of_another_kind_is_an_event),
        TEST(test_a_driver_that_is_not_polled_does_not_refuse_calls),
        TEST(test_malformed_records_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
