/* See nvml_poll.h. */
#include "sources/gpu/nvml_poll.h"

#include "base/cleanup.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define BLANK_FIRST 0x7ffffffffffffff0ull /* of the blanks that NVIDIA's tools use for unknown 64-bit values */
#define PERCENT_MAX 100
#define SAMPLES_MAX 512

/* Calls a function of the library, if it has it. */
#define CALL(p, member, ...)                                                                                           \
    (nvml_progress_begin((p)->progress, NVML_FUNCTION_##member),                                                       \
     nvml_progress_end((p)->progress,                                                                                  \
                       (p)->functions.member ? (p)->functions.member(__VA_ARGS__) : NVML_FUNCTION_NOT_FOUND))

struct emitting {
    void (*emit)(void *context, const struct record_header *record);
    void *context;
    uint32_t processes, unlisted, instances; /* of all devices */
};

/* The device that is being read. */
struct reading {
    struct nvml_poller *poller;
    nvml_device device;
    struct gpu_device *to;
};

/* ---- values ---- */

/* Whether the call succeeded. A device that is lost answers nothing else any more. */
static bool succeeded(const struct reading *r, int error)
{
    if (error == NVML_GPU_IS_LOST || error == NVML_RESET_REQUIRED)
        r->to->status = error;
    return error == NVML_OK;
}

static void put_value(const struct reading *r, enum gpu_value value, uint64_t number)
{
    r->to->values[value] = number;
    r->to->known |= 1ull << value;
}

static void put_32(const struct reading *r, enum gpu_value value, int error, uint32_t number)
{
    if (succeeded(r, error) && number != UINT32_MAX)
        put_value(r, value, number);
}

static void put_64(const struct reading *r, enum gpu_value value, int error, uint64_t number)
{
    if (succeeded(r, error) && number < BLANK_FIRST)
        put_value(r, value, number);
}

static void put_percent(const struct reading *r, enum gpu_value value, int error, uint32_t number)
{
    put_32(r, value, error, number <= PERCENT_MAX ? number : UINT32_MAX);
}

static void read_use(const struct reading *r)
{
    struct nvml_utilization used = {UINT32_MAX, UINT32_MAX};
    uint32_t percent = UINT32_MAX, period_us = 0;
    int error = CALL(r->poller, utilization, r->device, &used);
    put_percent(r, GPU_UTILIZATION, error, used.gpu);
    put_percent(r, GPU_MEMORY_BUSY, error, used.memory);
    error = CALL(r->poller, encoder, r->device, &percent, &period_us);
    put_percent(r, GPU_ENCODER, error, percent);
    percent = UINT32_MAX;
    error = CALL(r->poller, decoder, r->device, &percent, &period_us);
    put_percent(r, GPU_DECODER, error, percent);
}

static void read_memory(const struct reading *r)
{
    struct nvml_memory memory = {NVML_MEMORY_V2, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    const int error = CALL(r->poller, memory, r->device, &memory);
    put_64(r, GPU_MEMORY_TOTAL, error, memory.total);
    put_64(r, GPU_MEMORY_RESERVED, error, memory.reserved);
    put_64(r, GPU_MEMORY_USED, error, memory.used);
    put_64(r, GPU_MEMORY_FREE, error, memory.free);
}

static void read_power(const struct reading *r)
{
    uint32_t number = UINT32_MAX;
    uint64_t energy = UINT64_MAX;
    int error = CALL(r->poller, power, r->device, &number);
    put_32(r, GPU_POWER, error, number);
    number = UINT32_MAX;
    error = CALL(r->poller, power_limit, r->device, &number);
    put_32(r, GPU_POWER_LIMIT, error, number);
    error = CALL(r->poller, energy, r->device, &energy);
    put_64(r, GPU_ENERGY, error, energy);
    number = UINT32_MAX;
    error = CALL(r->poller, temperature, r->device, 0, &number);
    put_32(r, GPU_TEMPERATURE, error, number);
}

static void read_clocks(const struct reading *r)
{
    static const struct {
        uint32_t clock;
        enum gpu_value value;
    } clocks[] = {{NVML_CLOCK_SM, GPU_CLOCK_SM}, {NVML_CLOCK_MEMORY, GPU_CLOCK_MEMORY}};
    uint64_t reasons = UINT64_MAX;
    for (size_t i = 0; i < array_size(clocks); i++) {
        uint32_t mhz = UINT32_MAX;
        const int error = CALL(r->poller, clock, r->device, clocks[i].clock, &mhz);
        put_32(r, clocks[i].value, error, mhz);
    }
    int error = CALL(r->poller, clock_reasons, r->device, &reasons);
    if (error == NVML_FUNCTION_NOT_FOUND)
        error = CALL(r->poller, clock_reasons_before_535, r->device, &reasons);
    put_64(r, GPU_CLOCK_REASONS, error, reasons);
}

static void read_pcie(const struct reading *r)
{
    uint32_t number = UINT32_MAX;
    int error = CALL(r->poller, pcie_generation, r->device, &number);
    put_32(r, GPU_PCIE_GENERATION, error, number);
    number = UINT32_MAX;
    error = CALL(r->poller, pcie_width, r->device, &number);
    put_32(r, GPU_PCIE_WIDTH, error, number);
    number = UINT32_MAX;
    error = CALL(r->poller, pcie_replays, r->device, &number);
    put_32(r, GPU_PCIE_REPLAYS, error, number);
}

static void read_errors(const struct reading *r)
{
    uint64_t errors = UINT64_MAX;
    uint32_t correctable = UINT32_MAX, uncorrectable = UINT32_MAX, pending = UINT32_MAX, failed = UINT32_MAX;
    int error = CALL(r->poller, ecc, r->device, NVML_ERRORS_CORRECTED, NVML_SINCE_DRIVER_LOAD, &errors);
    put_64(r, GPU_ECC_CORRECTED, error, errors);
    errors = UINT64_MAX;
    error = CALL(r->poller, ecc, r->device, NVML_ERRORS_UNCORRECTED, NVML_SINCE_DRIVER_LOAD, &errors);
    put_64(r, GPU_ECC_UNCORRECTED, error, errors);
    error = CALL(r->poller, remapped_rows, r->device, &correctable, &uncorrectable, &pending, &failed);
    put_32(r, GPU_REMAPPED_CORRECTABLE, error, correctable);
    put_32(r, GPU_REMAPPED_UNCORRECTABLE, error, uncorrectable);
    put_32(r, GPU_REMAP_PENDING, error, pending);
    put_32(r, GPU_REMAP_FAILED, error, failed);
}

/* Values that have no function of their own, by one call. */
static void read_fields(const struct reading *r)
{
    static const struct {
        uint32_t id, scope, factor;
        enum gpu_value value;
    } wanted[] = {
        {NVML_FIELD_MEMORY_TEMPERATURE, 0, 1, GPU_MEMORY_TEMPERATURE},
        {NVML_FIELD_PCIE_SENT, 0, 1, GPU_PCIE_SENT},
        {NVML_FIELD_PCIE_RECEIVED, 0, 1, GPU_PCIE_RECEIVED},
        {NVML_FIELD_NVLINK_SENT, NVML_ALL_LINKS, 1024, GPU_NVLINK_SENT},
        {NVML_FIELD_NVLINK_RECEIVED, NVML_ALL_LINKS, 1024, GPU_NVLINK_RECEIVED},
        {NVML_FIELD_NVLINK_CRC, 0, 1, GPU_NVLINK_CRC_ERRORS},
        {NVML_FIELD_NVLINK_REPLAY, 0, 1, GPU_NVLINK_REPLAYS},
        {NVML_FIELD_NVLINK_RECOVERY, 0, 1, GPU_NVLINK_RECOVERIES},
        {NVML_FIELD_RECOVERY_ACTION, 0, 1, GPU_RECOVERY_ACTION},
    };
    struct nvml_field fields[array_size(wanted)] = {0};
    for (size_t i = 0; i < array_size(wanted); i++)
        fields[i] = (struct nvml_field){.id = wanted[i].id, .scope = wanted[i].scope, .error = NVML_FUNCTION_NOT_FOUND};
    if (!succeeded(r, CALL(r->poller, fields, r->device, (int)array_size(fields), fields)))
        return;
    for (size_t i = 0; i < array_size(wanted); i++) {
        const struct nvml_field *f = &fields[i];
        if (f->type == NVML_TYPE_UINT)
            put_32(r, wanted[i].value, f->error, (uint32_t)f->value);
        else if (f->type == NVML_TYPE_ULONG || f->type == NVML_TYPE_ULONG_LONG)
            put_64(r, wanted[i].value, f->error, f->value);
        if (r->to->known & 1ull << wanted[i].value)
            r->to->values[wanted[i].value] *= wanted[i].factor;
    }
}

/* Takes a sample. False: the device has no GPM, or this is the first one. */
static bool sample_gpm(const struct reading *r, struct nvml_seen *seen)
{
    struct nvml_gpm_support support = {.version = NVML_GPM_VERSION};
    const bool had_sample = seen->has_gpm_sample;
    if (!had_sample && (!succeeded(r, CALL(r->poller, gpm_support, r->device, &support)) || !support.is_supported))
        return false;
    for (size_t i = 0; i < array_size(seen->gpm_samples); i++)
        if (!seen->gpm_samples[i] && !succeeded(r, CALL(r->poller, gpm_alloc, &seen->gpm_samples[i])))
            return false;
    if (!succeeded(r, CALL(r->poller, gpm_sample, r->device, seen->gpm_samples[1])))
        return false;
    void *const taken = seen->gpm_samples[1];
    seen->gpm_samples[1] = seen->gpm_samples[0];
    seen->gpm_samples[0] = taken;
    seen->has_gpm_sample = true;
    return had_sample;
}

/* Unlike the counters of DCGM's profiling, these do not keep profilers from the device. */
static void read_gpm(const struct reading *r, struct nvml_seen *seen)
{
    static const struct {
        uint32_t id;
        enum gpu_value value;
    } wanted[] = {{NVML_GPM_ENGINE, GPU_ENGINE_ACTIVE},
                  {NVML_GPM_SM, GPU_SM_ACTIVE},
                  {NVML_GPM_TENSOR, GPU_TENSOR_ACTIVE},
                  {NVML_GPM_DRAM, GPU_MEMORY_ACTIVE}};
    struct nvml_gpm_metrics got = {.version = NVML_GPM_VERSION, .count = array_size(wanted)};
    if (r->to->status != NVML_OK || !sample_gpm(r, seen))
        return;
    got.samples[0] = seen->gpm_samples[1];
    got.samples[1] = seen->gpm_samples[0];
    for (size_t i = 0; i < array_size(wanted); i++)
        got.metrics[i] = (struct nvml_gpm_metric){.id = wanted[i].id, .error = NVML_FUNCTION_NOT_FOUND};
    if (!succeeded(r, CALL(r->poller, gpm_metrics, &got)))
        return;
    for (size_t i = 0; i < array_size(wanted); i++)
        if (got.metrics[i].error == NVML_OK && got.metrics[i].value >= 0 && got.metrics[i].value <= PERCENT_MAX)
            put_value(r, wanted[i].value, (uint64_t)(got.metrics[i].value * 100 + 0.5));
}

static void read_values(const struct reading *r)
{
    static void (*const readers[])(const struct reading *r) = {read_use,  read_memory, read_power, read_clocks,
                                                               read_pcie, read_errors, read_fields};
    for (size_t i = 0; i < array_size(readers) && r->to->status == NVML_OK; i++)
        readers[i](r);
}

/* ---- identity ---- */

static void read_identity(const struct reading *r, struct nvml_seen *seen)
{
    struct nvml_pci pci = {0};
    struct gpu_device *to = r->to;
    if (succeeded(r, CALL(r->poller, uuid, r->device, seen->uuid, sizeof(seen->uuid))))
        seen->uuid[sizeof(seen->uuid) - 1] = '\0';
    if (succeeded(r, CALL(r->poller, name, r->device, seen->name, sizeof(seen->name))))
        seen->name[sizeof(seen->name) - 1] = '\0';
    if (succeeded(r, CALL(r->poller, pci, r->device, &pci)))
        snprintf(seen->pci, sizeof(seen->pci), "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
    memcpy(to->uuid, seen->uuid, sizeof(to->uuid));
    memcpy(to->name, seen->name, sizeof(to->name));
    memcpy(to->pci, seen->pci, sizeof(to->pci));
}

/* ---- instances of MIG ---- */

/* Of the values, an instance has its memory; the rest belongs to the device. */
static void emit_instance(const struct reading *device, nvml_device mig, struct emitting *e)
{
    struct gpu_device record = {.h = {.size_bytes = sizeof(record), .kind = RECORD_GPU_DEVICE},
                                .index = device->to->index};
    const struct reading r = {.poller = device->poller, .device = mig, .to = &record};
    if (!succeeded(&r, CALL(r.poller, gpu_instance, mig, &record.instance)))
        return;
    if (!succeeded(&r, CALL(r.poller, uuid, mig, record.uuid, sizeof(record.uuid))))
        record.uuid[0] = '\0';
    if (!succeeded(&r, CALL(r.poller, name, mig, record.name, sizeof(record.name))))
        record.name[0] = '\0';
    memcpy(record.pci, device->to->pci, sizeof(record.pci));
    read_memory(&r);
    if (e->instances++ < GPU_INSTANCES_MAX)
        e->emit(e->context, &record.h);
}

static void emit_instances(const struct reading *r, struct emitting *e)
{
    uint32_t is_enabled = 0, pending = 0, count = 0;
    nvml_device mig;
    if (!succeeded(r, CALL(r->poller, mig_mode, r->device, &is_enabled, &pending)) || !is_enabled ||
        !succeeded(r, CALL(r->poller, mig_count, r->device, &count)))
        return;
    for (uint32_t i = 0; i < count && i < GPU_INSTANCES_MAX; i++)
        if (succeeded(r, CALL(r->poller, mig_device, r->device, i, &mig)))
            emit_instance(r, mig, e);
}

/* ---- processes ---- */

struct process_list {
    uint32_t count;
    uint32_t unlisted; /* of lists that are too long to be read */
    struct nvml_process all[GPU_PROCESSES_MAX];
};

/* Several samples of a process can have been taken since the last poll. */
static uint32_t busy_percent(const struct nvml_process_sample *samples, uint32_t count, uint32_t pid)
{
    uint32_t sum = 0, taken = 0;
    for (uint32_t i = 0; i < count; i++)
        if (samples[i].pid == pid && samples[i].sm <= PERCENT_MAX) {
            sum += samples[i].sm;
            taken++;
        }
    return taken ? sum / taken : UINT32_MAX;
}

/* Processes without a sample are not in the list: how busy they are is not known. */
static uint32_t read_samples(const struct reading *r, struct nvml_seen *seen,
                             struct nvml_process_sample samples[SAMPLES_MAX])
{
    uint32_t count = SAMPLES_MAX;
    if (!succeeded(r, CALL(r->poller, process_samples, r->device, samples, &count, seen->sampled_us)) ||
        count > SAMPLES_MAX)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        if (samples[i].time_us > seen->sampled_us)
            seen->sampled_us = samples[i].time_us;
    return count;
}

static void add_processes(struct process_list *list, const struct nvml_process *more, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = 0;
        while (at < list->count &&
               (list->all[at].pid != more[i].pid || list->all[at].gpu_instance != more[i].gpu_instance))
            at++;
        if (at == list->count && at < GPU_PROCESSES_MAX)
            list->all[list->count++] = more[i];
    }
}

/* `error`: of the call that has written `some` and `count`. */
static void take_list(const struct reading *r, int error, const struct nvml_process *some, uint32_t count,
                      struct process_list *ret)
{
    if (error == NVML_INSUFFICIENT_SIZE)
        ret->unlisted += count;
    else if (succeeded(r, error) && count <= GPU_PROCESSES_MAX)
        add_processes(ret, some, count);
}

/* A process with both kinds of contexts is in both lists, with the same memory. */
static void list_processes(const struct reading *r, struct process_list *ret)
{
    struct nvml_process some[GPU_PROCESSES_MAX];
    uint32_t count = array_size(some);
    ret->count = ret->unlisted = 0;
    int error = CALL(r->poller, processes, r->device, &count, some);
    take_list(r, error, some, count, ret);
    count = array_size(some);
    error = CALL(r->poller, graphics_processes, r->device, &count, some);
    take_list(r, error, some, count, ret);
}

static void emit_processes(const struct reading *r, struct nvml_seen *seen, struct emitting *e)
{
    struct process_list list;
    struct nvml_process_sample samples[SAMPLES_MAX];
    list_processes(r, &list);
    e->unlisted += list.unlisted;
    const uint32_t sampled = list.count ? read_samples(r, seen, samples) : 0;
    for (uint32_t i = 0; i < list.count; i++, e->processes++) {
        const struct nvml_process *process = &list.all[i];
        const struct gpu_process record = {
            .h = {.size_bytes = sizeof(record), .kind = RECORD_GPU_PROCESS, .pid = process->pid, .tid = process->pid},
            .device = r->to->index,
            .instance = process->gpu_instance,
            .memory = process->memory < BLANK_FIRST ? process->memory : UINT64_MAX,
            .busy = busy_percent(samples, sampled, process->pid)};
        if (e->processes < GPU_PROCESSES_MAX)
            e->emit(e->context, &record.h);
    }
}

/* ---- polls ---- */

int nvml_poller_init(struct nvml_poller *p)
{
    atomic_store(&p->progress->device, GPU_NO_INSTANCE);
    const int error = CALL(p, init);
    if (error != NVML_OK)
        return error;
    if (CALL(p, driver_version, p->driver, sizeof(p->driver)) != NVML_OK)
        p->driver[0] = '\0';
    return NVML_OK;
}

static void poll_device(struct nvml_poller *p, uint32_t index, struct emitting *e)
{
    struct gpu_device record = {
        .h = {.size_bytes = sizeof(record), .kind = RECORD_GPU_DEVICE}, .index = index, .instance = GPU_NO_INSTANCE};
    struct nvml_seen *seen = &p->seen[index];
    struct reading r = {.poller = p, .to = &record};
    atomic_store(&p->progress->device, index);
    record.status = CALL(p, device, index, &r.device);
    if (record.status == NVML_OK) {
        read_identity(&r, seen);
        read_values(&r);
        read_gpm(&r, seen);
    } else {
        memcpy(record.uuid, seen->uuid, sizeof(record.uuid));
        memcpy(record.name, seen->name, sizeof(record.name));
        memcpy(record.pci, seen->pci, sizeof(record.pci));
    }
    e->emit(e->context, &record.h);
    if (record.status == NVML_OK)
        emit_instances(&r, e);
    if (record.status == NVML_OK)
        emit_processes(&r, seen, e);
}

int nvml_poller_poll(struct nvml_poller *p, void (*emit)(void *context, const struct record_header *record),
                     void *context)
{
    struct gpu_poll end = {.h = {.size_bytes = sizeof(end), .kind = RECORD_GPU_POLL}};
    struct emitting e = {.emit = emit, .context = context};
    const uint64_t start_ns = clock_monotonic_ns();
    atomic_store(&p->progress->device, GPU_NO_INSTANCE);
    const int error = CALL(p, count, &end.devices);
    if (error != NVML_OK)
        return error;
    for (uint32_t i = 0; i < end.devices && i < GPU_DEVICES_MAX; i++)
        poll_device(p, i, &e);
    end.processes = e.processes + e.unlisted;
    end.duration_ns = clock_monotonic_ns() - start_ns;
    memcpy(end.driver, p->driver, sizeof(end.driver));
    emit(context, &end.h);
    return NVML_OK;
}
