/* See gpu_metrics.h. */
#include "signals/gpu/gpu_metrics.h"

#include "signals/process_labels.h"

#include <stdio.h>
#include <string.h>

#define OF_DEVICE 4 /* labels, at most */

struct device_labels {
    char index[16], instance[16];
    struct metric_label list[OF_DEVICE + 2];
};

static size_t label_device(const struct gpu_device *d, struct device_labels *ret)
{
    snprintf(ret->index, sizeof(ret->index), "%u", d->index);
    ret->list[0] = (struct metric_label){"gpu", ret->index};
    ret->list[1] = (struct metric_label){"hw_id", d->uuid};
    ret->list[2] = (struct metric_label){"hw_name", d->name};
    if (d->instance == GPU_NO_INSTANCE)
        return OF_DEVICE - 1;
    snprintf(ret->instance, sizeof(ret->instance), "%u", d->instance);
    ret->list[3] = (struct metric_label){"gpu_instance", ret->instance};
    return OF_DEVICE;
}

/* ---- values ---- */

static const struct value_metric {
    enum gpu_value value;
    enum metric_type type;
    double factor;
    const char *name, *unit, *label, *label_value; /* label NULL: none */
    const char *help;
} value_metrics[] = {
    {GPU_UTILIZATION, METRIC_GAUGE, 0.01, "hw_gpu_utilization_ratio", "ratio", "hw_gpu_task", "general",
     "Share of the time in which a kernel ran, or the engine was busy, over the driver's last sample period."},
    {GPU_ENCODER, METRIC_GAUGE, 0.01, "hw_gpu_utilization_ratio", "ratio", "hw_gpu_task", "encoder",
     "Share of the time in which a kernel ran, or the engine was busy, over the driver's last sample period."},
    {GPU_DECODER, METRIC_GAUGE, 0.01, "hw_gpu_utilization_ratio", "ratio", "hw_gpu_task", "decoder",
     "Share of the time in which a kernel ran, or the engine was busy, over the driver's last sample period."},
    {GPU_MEMORY_BUSY, METRIC_GAUGE, 0.01, "sonde_gpu_memory_busy_ratio", "ratio", NULL, NULL,
     "Share of the time in which device memory was read or written."},
    {GPU_MEMORY_TOTAL, METRIC_GAUGE, 1, "hw_gpu_memory_limit_bytes", "bytes", NULL, NULL, "Size of device memory."},
    {GPU_MEMORY_USED, METRIC_GAUGE, 1, "hw_gpu_memory_usage_bytes", "bytes", NULL, NULL, "Used device memory."},
    {GPU_MEMORY_FREE, METRIC_GAUGE, 1, "sonde_gpu_memory_free_bytes", "bytes", NULL, NULL, "Free device memory."},
    {GPU_MEMORY_RESERVED, METRIC_GAUGE, 1, "sonde_gpu_memory_reserved_bytes", "bytes", NULL, NULL,
     "Device memory that the driver keeps for itself."},
    {GPU_ENGINE_ACTIVE, METRIC_GAUGE, 0.0001, "sonde_gpu_engine_active_ratio", "ratio", NULL, NULL,
     "Share of the time between two polls in which a graphics or compute engine was active."},
    {GPU_SM_ACTIVE, METRIC_GAUGE, 0.0001, "sonde_gpu_sm_active_ratio", "ratio", NULL, NULL,
     "Share of the SMs that were busy between two polls."},
    {GPU_TENSOR_ACTIVE, METRIC_GAUGE, 0.0001, "sonde_gpu_tensor_active_ratio", "ratio", NULL, NULL,
     "Share of the time between two polls in which the SMs used their tensor cores."},
    {GPU_MEMORY_ACTIVE, METRIC_GAUGE, 0.0001, "sonde_gpu_memory_bandwidth_ratio", "ratio", NULL, NULL,
     "Share of the bandwidth of device memory that was used between two polls."},
    {GPU_POWER, METRIC_GAUGE, 0.001, "hw_power_watts", "watts", NULL, NULL, "Power that the device draws."},
    {GPU_POWER_LIMIT, METRIC_GAUGE, 0.001, "sonde_gpu_power_limit_watts", "watts", NULL, NULL,
     "Power that the device may draw."},
    {GPU_ENERGY, METRIC_COUNTER, 0.001, "hw_energy_joules", "joules", NULL, NULL,
     "Energy that the device has used since the driver was loaded."},
    {GPU_TEMPERATURE, METRIC_GAUGE, 1, "hw_temperature_celsius", "celsius", "hw_sensor_location", "gpu",
     "Temperature of a sensor."},
    {GPU_MEMORY_TEMPERATURE, METRIC_GAUGE, 1, "hw_temperature_celsius", "celsius", "hw_sensor_location", "memory",
     "Temperature of a sensor."},
    {GPU_CLOCK_SM, METRIC_GAUGE, 1e6, "sonde_gpu_clock_hertz", "hertz", "clock", "sm", "Present clock."},
    {GPU_CLOCK_MEMORY, METRIC_GAUGE, 1e6, "sonde_gpu_clock_hertz", "hertz", "clock", "memory", "Present clock."},
    {GPU_PCIE_GENERATION, METRIC_GAUGE, 1, "sonde_gpu_pcie_generation", "", NULL, NULL,
     "Generation of PCIe at which the link runs now."},
    {GPU_PCIE_WIDTH, METRIC_GAUGE, 1, "sonde_gpu_pcie_lanes", "", NULL, NULL, "Lanes that the PCIe link uses now."},
    {GPU_PCIE_REPLAYS, METRIC_COUNTER, 1, "sonde_gpu_pcie_replays", "", NULL, NULL,
     "Packets that were sent over PCIe again after an error."},
    {GPU_PCIE_SENT, METRIC_COUNTER, 1, "hw_gpu_io_bytes", "bytes", "network_io_direction", "transmit",
     "Bytes that the device sent and received over PCIe."},
    {GPU_PCIE_RECEIVED, METRIC_COUNTER, 1, "hw_gpu_io_bytes", "bytes", "network_io_direction", "receive",
     "Bytes that the device sent and received over PCIe."},
    {GPU_NVLINK_SENT, METRIC_COUNTER, 1, "sonde_gpu_nvlink_bytes", "bytes", "network_io_direction", "transmit",
     "Bytes that the device sent and received over all its NVLinks."},
    {GPU_NVLINK_RECEIVED, METRIC_COUNTER, 1, "sonde_gpu_nvlink_bytes", "bytes", "network_io_direction", "receive",
     "Bytes that the device sent and received over all its NVLinks."},
    {GPU_NVLINK_CRC_ERRORS, METRIC_COUNTER, 1, "sonde_gpu_nvlink_errors", "", "error_type", "crc",
     "Errors of NVLink: wrong checksums, repeated packets, recoveries of a link."},
    {GPU_NVLINK_REPLAYS, METRIC_COUNTER, 1, "sonde_gpu_nvlink_errors", "", "error_type", "replay",
     "Errors of NVLink: wrong checksums, repeated packets, recoveries of a link."},
    {GPU_NVLINK_RECOVERIES, METRIC_COUNTER, 1, "sonde_gpu_nvlink_errors", "", "error_type", "recovery",
     "Errors of NVLink: wrong checksums, repeated packets, recoveries of a link."},
    {GPU_ECC_CORRECTED, METRIC_COUNTER, 1, "hw_errors", "", "error_type", "ecc_corrected",
     "ECC errors of the device's memories since the driver was loaded."},
    {GPU_ECC_UNCORRECTED, METRIC_COUNTER, 1, "hw_errors", "", "error_type", "ecc_uncorrected",
     "ECC errors of the device's memories since the driver was loaded."},
    {GPU_REMAPPED_CORRECTABLE, METRIC_GAUGE, 1, "sonde_gpu_remapped_rows", "", "error_type", "correctable",
     "Rows of device memory that were replaced, by the errors that they had."},
    {GPU_REMAPPED_UNCORRECTABLE, METRIC_GAUGE, 1, "sonde_gpu_remapped_rows", "", "error_type", "uncorrectable",
     "Rows of device memory that were replaced, by the errors that they had."},
    {GPU_REMAP_PENDING, METRIC_GAUGE, 1, "sonde_gpu_row_remap_pending", "", NULL, NULL,
     "1: a row of device memory will be replaced by the next reset."},
    {GPU_REMAP_FAILED, METRIC_GAUGE, 1, "sonde_gpu_row_remap_failed", "", NULL, NULL,
     "1: a row of device memory could not be replaced."},
    {GPU_RECOVERY_ACTION, METRIC_GAUGE, 1, "sonde_gpu_recovery_action", "", NULL, NULL,
     "What the driver wants: 0 nothing, 1 reset, 2 restart of the machine, 3 drain P2P, 4 drain and reset."},
};

/* Metrics of OpenTelemetry that are not only of GPUs. */
static bool needs_type(const char *name)
{
    return strncmp(name, "hw_", 3) == 0 && strncmp(name, "hw_gpu_", 7) != 0;
}

static void put_values(const struct gpu_device *d, struct metric_set *set)
{
    for (size_t i = 0; i < array_size(value_metrics); i++) {
        const struct value_metric *m = &value_metrics[i];
        struct device_labels labels;
        size_t count = label_device(d, &labels);
        uint64_t value;
        if (!gpu_value_of(d, m->value, &value))
            continue;
        if (needs_type(m->name))
            labels.list[count++] = (struct metric_label){"hw_type", "gpu"};
        if (m->label)
            labels.list[count++] = (struct metric_label){m->label, m->label_value};
        metric_add(set, m->name, m->type, m->unit, m->help, (double)value * m->factor, labels.list, count);
    }
}

static void put_clock_reasons(const struct gpu_device *d, struct metric_set *set)
{
    static const struct {
        uint64_t bit;
        const char *name;
    } reasons[] = {
        {GPU_CLOCK_SW_POWER_CAP, "power_cap"},     {GPU_CLOCK_HW_SLOWDOWN, "hw_slowdown"},
        {GPU_CLOCK_SW_THERMAL, "sw_thermal"},      {GPU_CLOCK_HW_THERMAL, "hw_thermal"},
        {GPU_CLOCK_HW_POWER_BRAKE, "power_brake"},
    };
    uint64_t bits;
    if (!gpu_value_of(d, GPU_CLOCK_REASONS, &bits))
        return;
    for (size_t i = 0; i < array_size(reasons); i++) {
        struct device_labels labels;
        size_t count = label_device(d, &labels);
        labels.list[count++] = (struct metric_label){"reason", reasons[i].name};
        metric_add(set, "sonde_gpu_throttled", METRIC_GAUGE, "", "1: the clocks are reduced for this reason.",
                   (bits & reasons[i].bit) != 0, labels.list, count);
    }
}

static void put_status(const struct gpu_device *d, struct metric_set *set)
{
    static const char *const states[] = {"ok", "failed"};
    for (size_t i = 0; i < array_size(states); i++) {
        struct device_labels labels;
        size_t count = label_device(d, &labels);
        labels.list[count++] = (struct metric_label){"hw_type", "gpu"};
        labels.list[count++] = (struct metric_label){"hw_state", states[i]};
        metric_add(set, "hw_status", METRIC_GAUGE, "", "1: the device is in this state.", (d->status != 0) == (i == 1),
                   labels.list, count);
    }
}

static void put_hangs(const struct gpu_state *state, const struct gpu_device *d, struct metric_set *set)
{
    struct device_labels labels;
    const size_t count = label_device(d, &labels);
    if (state->finds_hangs && d->instance == GPU_NO_INSTANCE && d->index < GPU_DEVICES_MAX)
        metric_add(set, "sonde_gpu_hangs", METRIC_COUNTER, "",
                   "Times since the agent's start that the device did not finish the work of a process.",
                   (double)state->hangs[d->index], labels.list, count);
}

/* ---- processes ---- */

static void put_process(const struct gpu_list *list, const struct gpu_process *p, struct processes *processes,
                        struct metric_set *set)
{
    const struct gpu_device *device = NULL;
    struct process_labels process;
    char index[16], instance[16] = "";
    struct metric_label labels[3 + PROCESS_LABELS];
    for (size_t i = 0; !device && i < list->device_count; i++) /* those that the driver lists come first */
        device = list->devices[i].index == p->device ? &list->devices[i] : NULL;
    snprintf(index, sizeof(index), "%u", p->device);
    if (p->instance != GPU_NO_INSTANCE)
        snprintf(instance, sizeof(instance), "%u", p->instance);
    labels[0] = (struct metric_label){"gpu", index};
    labels[1] = (struct metric_label){"hw_id", device ? device->uuid : ""};
    labels[2] = (struct metric_label){"gpu_instance", instance};
    process_labels_fill(processes, p->h.pid, &process);
    memcpy(&labels[3], process.list, sizeof(process.list));
    if (p->memory != UINT64_MAX)
        metric_add(set, "sonde_gpu_process_memory_bytes", METRIC_GAUGE, "bytes", "Device memory that a process uses.",
                   (double)p->memory, labels, array_size(labels));
    if (p->busy != UINT32_MAX)
        metric_add(set, "sonde_gpu_process_utilization_ratio", METRIC_GAUGE, "ratio",
                   "Share of the time in which a kernel of the process ran.", p->busy * 0.01, labels,
                   array_size(labels));
}

/* ---- errors ---- */

static void put_xids(const struct gpu_state *state, struct metric_set *set)
{
    for (size_t i = 0; i < state->xid_count; i++) {
        const struct gpu_xid_count *x = &state->xids[i];
        const struct gpu_device *d = gpu_list_at(&state->now, x->pci);
        const struct gpu_device unknown = {.instance = GPU_NO_INSTANCE};
        struct device_labels labels;
        char code[16];
        size_t count = label_device(d ? d : &unknown, &labels);
        if (!d)
            labels.list[0].value = "";
        snprintf(code, sizeof(code), "%u", x->code);
        labels.list[count++] = (struct metric_label){"pci", x->pci};
        labels.list[count++] = (struct metric_label){"xid", code};
        metric_add(set, "sonde_gpu_xids", METRIC_COUNTER, "",
                   "Errors (Xid) that the driver has logged since the agent's start.", (double)x->count, labels.list,
                   count);
    }
}

void gpu_metrics_put(const struct gpu_state *state, struct processes *processes, struct metric_set *set)
{
    put_xids(state, set);
    if (!state->is_polled && state->driver == GPU_DRIVER_RESPONDS)
        return;
    metric_add(set, "sonde_gpu_driver_responds", METRIC_GAUGE, "",
               "0: the driver hangs or refuses all calls; then there are no values of GPUs.",
               state->driver == GPU_DRIVER_RESPONDS, METRIC_NO_LABELS);
    if (state->driver != GPU_DRIVER_RESPONDS)
        return;
    for (size_t i = 0; i < state->now.device_count; i++) {
        put_status(&state->now.devices[i], set);
        put_values(&state->now.devices[i], set);
        put_clock_reasons(&state->now.devices[i], set);
        put_hangs(state, &state->now.devices[i], set);
    }
    for (size_t i = 0; i < state->now.process_count; i++)
        put_process(&state->now, &state->now.processes[i], processes, set);
}
