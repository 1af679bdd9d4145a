/* The part of NVIDIA's management library (NVML) that is used: types and functions by the layouts of its stable binary
 * interface. tests/gpu compares the layouts with NVIDIA's header. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define NVML_LIBRARY "libnvidia-ml.so.1"

struct nvml_handle; /* a device */

enum {
    NVML_OK = 0,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_LIBRARY_NOT_FOUND = 12,
    NVML_FUNCTION_NOT_FOUND = 13,
    NVML_GPU_IS_LOST = 15,
    NVML_RESET_REQUIRED = 16,
    NVML_GPU_NOT_FOUND = 28,
};

enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };
enum { NVML_ERRORS_CORRECTED = 0, NVML_ERRORS_UNCORRECTED = 1 };
enum { NVML_SINCE_DRIVER_LOAD = 0 };

struct nvml_utilization {
    uint32_t gpu, memory;
};

#define NVML_MEMORY_V2 (sizeof(struct nvml_memory) | 2u << 24)
struct nvml_memory {
    uint32_t version; /* NVML_MEMORY_V2 */
    uint64_t total, reserved, free, used;
};

struct nvml_pci {
    char legacy_id[16];
    uint32_t domain, bus, device, device_id, subsystem_id;
    char id[32];
};

struct nvml_process {
    uint32_t pid;
    uint64_t memory; /* ~0: unknown */
    uint32_t gpu_instance, compute_instance;
};

struct nvml_process_sample {
    uint32_t pid;
    uint64_t time_us; /* CLOCK_REALTIME */
    uint32_t sm, memory, encoder, decoder;
};

enum { NVML_TYPE_UINT = 1, NVML_TYPE_ULONG = 2, NVML_TYPE_ULONG_LONG = 3 };

/* Field numbers (NVML_FI_DEV_*). */
enum {
    NVML_FIELD_NVLINK_CRC = 38,
    NVML_FIELD_NVLINK_REPLAY = 52,
    NVML_FIELD_NVLINK_RECOVERY = 59,
    NVML_FIELD_MEMORY_TEMPERATURE = 82,
    NVML_FIELD_NVLINK_SENT = 138, /* KiB; scope ~0: all links */
    NVML_FIELD_NVLINK_RECEIVED = 139,
    NVML_FIELD_PCIE_SENT = 197, /* bytes */
    NVML_FIELD_PCIE_RECEIVED = 198,
    NVML_FIELD_RECOVERY_ACTION = 230,
};
#define NVML_ALL_LINKS UINT32_MAX

struct nvml_field {
    uint32_t id, scope;
    int64_t time_us, latency_us;
    uint32_t type;
    int32_t error;
    uint64_t value;
};

/* Metrics of GPM (Hopper and later), which come from two samples. */
struct nvml_gpm_support {
    uint32_t version, is_supported;
};

struct nvml_gpm_metric {
    uint32_t id;
    int32_t error;
    double value;
    const char *names[3];
};

#define NVML_GPM_VERSION     1
#define NVML_GPM_METRICS_MAX 333 /* as many as in CUDA 13; libraries of CUDA 12 have an array of fewer */
struct nvml_gpm_metrics {
    uint32_t version, count;
    void *samples[2]; /* the earlier one first */
    struct nvml_gpm_metric metrics[NVML_GPM_METRICS_MAX];
};

enum { NVML_GPM_ENGINE = 1, NVML_GPM_SM = 2, NVML_GPM_TENSOR = 5, NVML_GPM_DRAM = 10 };

typedef struct nvml_handle *nvml_device;

/* X(member, symbol, parameters): all return an error of the library. */
#define NVML_FUNCTIONS(X)                                                                                              \
    X(init, "nvmlInit_v2", (void))                                                                                     \
    X(driver_version, "nvmlSystemGetDriverVersion", (char *out, uint32_t size))                                        \
    X(count, "nvmlDeviceGetCount_v2", (uint32_t * count))                                                              \
    X(device, "nvmlDeviceGetHandleByIndex_v2", (uint32_t index, nvml_device * device))                                 \
    X(name, "nvmlDeviceGetName", (nvml_device device, char *out, uint32_t size))                                       \
    X(uuid, "nvmlDeviceGetUUID", (nvml_device device, char *out, uint32_t size))                                       \
    X(pci, "nvmlDeviceGetPciInfo_v3", (nvml_device device, struct nvml_pci * out))                                     \
    X(utilization, "nvmlDeviceGetUtilizationRates", (nvml_device device, struct nvml_utilization * out))               \
    X(encoder, "nvmlDeviceGetEncoderUtilization", (nvml_device device, uint32_t * percent, uint32_t * period_us))      \
    X(decoder, "nvmlDeviceGetDecoderUtilization", (nvml_device device, uint32_t * percent, uint32_t * period_us))      \
    X(memory, "nvmlDeviceGetMemoryInfo_v2", (nvml_device device, struct nvml_memory * out))                            \
    X(power, "nvmlDeviceGetPowerUsage", (nvml_device device, uint32_t * milliwatts))                                   \
    X(power_limit, "nvmlDeviceGetEnforcedPowerLimit", (nvml_device device, uint32_t * milliwatts))                     \
    X(energy, "nvmlDeviceGetTotalEnergyConsumption", (nvml_device device, uint64_t * millijoules))                     \
    X(temperature, "nvmlDeviceGetTemperature", (nvml_device device, uint32_t sensor, uint32_t * celsius))              \
    X(clock, "nvmlDeviceGetClockInfo", (nvml_device device, uint32_t clock, uint32_t * mhz))                           \
    X(clock_reasons, "nvmlDeviceGetCurrentClocksEventReasons", (nvml_device device, uint64_t * bits))                  \
    X(clock_reasons_before_535, "nvmlDeviceGetCurrentClocksThrottleReasons", (nvml_device device, uint64_t * bits))    \
    X(pcie_generation, "nvmlDeviceGetCurrPcieLinkGeneration", (nvml_device device, uint32_t * generation))             \
    X(pcie_width, "nvmlDeviceGetCurrPcieLinkWidth", (nvml_device device, uint32_t * lanes))                            \
    X(pcie_replays, "nvmlDeviceGetPcieReplayCounter", (nvml_device device, uint32_t * replays))                        \
    X(ecc, "nvmlDeviceGetTotalEccErrors", (nvml_device device, uint32_t severity, uint32_t since, uint64_t * errors))  \
    X(remapped_rows, "nvmlDeviceGetRemappedRows",                                                                      \
      (nvml_device device, uint32_t * correctable, uint32_t * uncorrectable, uint32_t * is_pending,                    \
       uint32_t * has_failed))                                                                                         \
    X(processes, "nvmlDeviceGetComputeRunningProcesses_v3",                                                            \
      (nvml_device device, uint32_t * count, struct nvml_process * out))                                               \
    X(graphics_processes, "nvmlDeviceGetGraphicsRunningProcesses_v3",                                                  \
      (nvml_device device, uint32_t * count, struct nvml_process * out))                                               \
    X(process_samples, "nvmlDeviceGetProcessUtilization",                                                              \
      (nvml_device device, struct nvml_process_sample * out, uint32_t * count, uint64_t since_us))                     \
    X(mig_mode, "nvmlDeviceGetMigMode", (nvml_device device, uint32_t * current, uint32_t * pending))                  \
    X(mig_count, "nvmlDeviceGetMaxMigDeviceCount", (nvml_device device, uint32_t * count))                             \
    X(mig_device, "nvmlDeviceGetMigDeviceHandleByIndex", (nvml_device device, uint32_t index, nvml_device * mig))      \
    X(gpu_instance, "nvmlDeviceGetGpuInstanceId", (nvml_device mig, uint32_t * id))                                    \
    X(gpm_support, "nvmlGpmQueryDeviceSupport", (nvml_device device, struct nvml_gpm_support * out))                   \
    X(gpm_alloc, "nvmlGpmSampleAlloc", (void **sample))                                                                \
    X(gpm_sample, "nvmlGpmSampleGet", (nvml_device device, void *sample))                                              \
    X(gpm_metrics, "nvmlGpmMetricsGet", (struct nvml_gpm_metrics * out))                                               \
    X(fields, "nvmlDeviceGetFieldValues", (nvml_device device, int count, struct nvml_field *fields))

struct nvml_functions {
#define X(member, symbol, parameters) int(*member) parameters;
    NVML_FUNCTIONS(X)
#undef X
    const char *(*error_text)(int error);
};

enum nvml_function {
#define X(member, symbol, parameters) NVML_FUNCTION_##member,
    NVML_FUNCTIONS(X)
#undef X
        NVML_FUNCTION_COUNT
};
