/* A libnvidia-ml.so.1 whose devices are a file: SONDE_FAKE_NVML names it, and each call reads it again. A line is
 *
 *     FUNCTION DEVICE [KEY] VALUE...      nvmlDeviceGetPowerUsage 0 215000
 *                                         nvmlDeviceGetFieldValues 0 82 64        (field 82 is 64)
 *     FUNCTION DEVICE [KEY] error NUMBER  the call returns this error
 *     FUNCTION DEVICE [KEY] hang          the call does not return; it writes its PID to "$SONDE_FAKE_NVML.hangs" first
 *
 * with "-" for DEVICE where the function has none, KEY the clock, the severity or the field, and the first line that
 * fits counts. A function without a line is not supported by the device (error 3). Lists of processes have a line each:
 * "process DEVICE PID MEMORY [GPU-INSTANCE]", "graphics DEVICE PID MEMORY", "sample DEVICE PID SM TIME-US" (0: now). */
#include "sources/gpu/nvml.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VALUES_MAX 6
#define NO_KEY     (-1L)

int nvmlInit_v2(void);
int nvmlSystemGetDriverVersion(char *out, uint32_t size);
int nvmlDeviceGetCount_v2(uint32_t *count);
int nvmlDeviceGetHandleByIndex_v2(uint32_t index, nvml_device *device);
int nvmlDeviceGetName(nvml_device device, char *out, uint32_t size);
int nvmlDeviceGetUUID(nvml_device device, char *out, uint32_t size);
int nvmlDeviceGetPciInfo_v3(nvml_device device, struct nvml_pci *out);
int nvmlDeviceGetUtilizationRates(nvml_device device, struct nvml_utilization *out);
int nvmlDeviceGetEncoderUtilization(nvml_device device, uint32_t *percent, uint32_t *period_us);
int nvmlDeviceGetDecoderUtilization(nvml_device device, uint32_t *percent, uint32_t *period_us);
int nvmlDeviceGetMemoryInfo_v2(nvml_device device, struct nvml_memory *out);
int nvmlDeviceGetPowerUsage(nvml_device device, uint32_t *out);
int nvmlDeviceGetEnforcedPowerLimit(nvml_device device, uint32_t *out);
int nvmlDeviceGetTotalEnergyConsumption(nvml_device device, uint64_t *out);
int nvmlDeviceGetTemperature(nvml_device device, uint32_t sensor, uint32_t *out);
int nvmlDeviceGetClockInfo(nvml_device device, uint32_t clock, uint32_t *out);
int nvmlDeviceGetCurrentClocksEventReasons(nvml_device device, uint64_t *out);
int nvmlDeviceGetCurrPcieLinkGeneration(nvml_device device, uint32_t *out);
int nvmlDeviceGetCurrPcieLinkWidth(nvml_device device, uint32_t *out);
int nvmlDeviceGetPcieReplayCounter(nvml_device device, uint32_t *out);
int nvmlDeviceGetTotalEccErrors(nvml_device device, uint32_t severity, uint32_t since, uint64_t *out);
int nvmlDeviceGetRemappedRows(nvml_device device, uint32_t *correctable, uint32_t *uncorrectable, uint32_t *pending,
                              uint32_t *failed);
int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device device, uint32_t *count, struct nvml_process *out);
int nvmlDeviceGetGraphicsRunningProcesses_v3(nvml_device device, uint32_t *count, struct nvml_process *out);
int nvmlDeviceGetProcessUtilization(nvml_device device, struct nvml_process_sample *out, uint32_t *count,
                                    uint64_t since_us);
int nvmlDeviceGetMigMode(nvml_device device, uint32_t *current, uint32_t *pending);
int nvmlDeviceGetMaxMigDeviceCount(nvml_device device, uint32_t *count);
int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device device, uint32_t index, nvml_device *mig);
int nvmlDeviceGetGpuInstanceId(nvml_device mig, uint32_t *id);
int nvmlGpmQueryDeviceSupport(nvml_device device, struct nvml_gpm_support *out);
int nvmlGpmSampleAlloc(void **sample);
int nvmlGpmSampleGet(nvml_device device, void *sample);
int nvmlGpmMetricsGet(struct nvml_gpm_metrics *out);
int nvmlDeviceGetFieldValues(nvml_device device, int count, struct nvml_field *fields);
const char *nvmlErrorString(int error);

/* ---- the file ---- */

static FILE *open_script(void)
{
    const char *path = getenv("SONDE_FAKE_NVML");
    FILE *script = path ? fopen(path, "re") : NULL;
    if (!script) {
        fprintf(stderr, "fake NVML: SONDE_FAKE_NVML names no file\n");
        abort();
    }
    return script;
}

/* A handle is the device's index + 1. */
static long index_of(nvml_device device)
{
    return (long)(intptr_t)device - 1;
}

/* Reads the words behind "FUNCTION DEVICE [KEY]". Device < 0: "-". */
static bool next_line(FILE *script, const char *function, long device, long key, char rest[256])
{
    char line[256], wanted[96];
    int used = snprintf(wanted, sizeof(wanted), device < 0 ? "%s - " : "%s %ld ", function, device);
    if (key != NO_KEY)
        snprintf(wanted + used, sizeof(wanted) - (size_t)used, "%ld ", key);
    while (fgets(line, sizeof(line), script)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, wanted, strlen(wanted)) != 0)
            continue;
        snprintf(rest, 256, "%s", line + strlen(wanted));
        return true;
    }
    return false;
}

static void hang(void)
{
    char path[256];
    snprintf(path, sizeof(path), "%s.hangs", getenv("SONDE_FAKE_NVML"));
    FILE *sign = fopen(path, "we");
    if (sign) {
        fprintf(sign, "%d", getpid());
        fclose(sign);
    }
    for (;;)
        pause();
}

/* 0 and the words; or the error that the script wants. Does not return where it wants a hang. */
static int call(const char *function, long device, long key, char rest[256])
{
    FILE *script = open_script();
    const bool found = next_line(script, function, device, key, rest);
    fclose(script);
    if (found && strcmp(rest, "hang") == 0)
        hang();
    if (!found)
        return NVML_NOT_SUPPORTED;
    return strncmp(rest, "error ", 6) == 0 ? atoi(rest + 6) : NVML_OK;
}

/* Writes as many numbers as the line has. */
static int read_numbers(const char *function, nvml_device device, long key, uint64_t values[VALUES_MAX])
{
    char rest[256], *at = rest, *end;
    const int error = call(function, index_of(device), key, rest);
    for (size_t i = 0; error == NVML_OK && i < VALUES_MAX; i++) {
        const uint64_t value = strtoull(at, &end, 0);
        if (end == at)
            break;
        values[i] = value;
        at = end;
    }
    return error;
}

static int read_32(const char *function, nvml_device device, long key, uint32_t *out)
{
    uint64_t values[VALUES_MAX] = {0};
    const int error = read_numbers(function, device, key, values);
    if (error == NVML_OK)
        *out = (uint32_t)values[0];
    return error;
}

static int read_64(const char *function, nvml_device device, long key, uint64_t *out)
{
    uint64_t values[VALUES_MAX] = {0};
    const int error = read_numbers(function, device, key, values);
    if (error == NVML_OK)
        *out = values[0];
    return error;
}

/* A text has a default where the script says nothing. */
static int read_text(const char *function, long device, char *out, uint32_t size, const char *otherwise)
{
    char rest[256];
    const int error = call(function, device, NO_KEY, rest);
    if (error != NVML_OK && error != NVML_NOT_SUPPORTED)
        return error;
    snprintf(out, size, "%s", error == NVML_OK ? rest : otherwise);
    return NVML_OK;
}

/* ---- the library ---- */

int nvmlInit_v2(void)
{
    char rest[256];
    const int error = call(__func__, -1, NO_KEY, rest);
    return error == NVML_NOT_SUPPORTED ? NVML_OK : error;
}

int nvmlSystemGetDriverVersion(char *out, uint32_t size)
{
    return read_text(__func__, -1, out, size, "575.57.08");
}

int nvmlDeviceGetCount_v2(uint32_t *count)
{
    return read_32(__func__, NULL, NO_KEY, count);
}

int nvmlDeviceGetHandleByIndex_v2(uint32_t index, nvml_device *device)
{
    char rest[256];
    const int error = call(__func__, index, NO_KEY, rest);
    *device = (nvml_device)(intptr_t)(index + 1); /* NOLINT: a handle, never dereferenced */
    return error == NVML_NOT_SUPPORTED ? NVML_OK : error;
}

int nvmlDeviceGetName(nvml_device device, char *out, uint32_t size)
{
    return read_text(__func__, index_of(device), out, size, "NVIDIA Fake");
}

int nvmlDeviceGetUUID(nvml_device device, char *out, uint32_t size)
{
    char uuid[32];
    snprintf(uuid, sizeof(uuid), "GPU-fake-%ld", index_of(device));
    return read_text(__func__, index_of(device), out, size, uuid);
}

int nvmlDeviceGetPciInfo_v3(nvml_device device, struct nvml_pci *out)
{
    *out = (struct nvml_pci){.bus = 0x10 + (uint32_t)index_of(device)};
    snprintf(out->id, sizeof(out->id), "00000000:%02X:00.0", out->bus);
    return NVML_OK;
}

int nvmlDeviceGetUtilizationRates(nvml_device device, struct nvml_utilization *out)
{
    uint64_t values[VALUES_MAX] = {0};
    const int error = read_numbers(__func__, device, NO_KEY, values);
    if (error == NVML_OK)
        *out = (struct nvml_utilization){(uint32_t)values[0], (uint32_t)values[1]};
    return error;
}

int nvmlDeviceGetEncoderUtilization(nvml_device device, uint32_t *percent, uint32_t *period_us)
{
    *period_us = 1000000;
    return read_32(__func__, device, NO_KEY, percent);
}

int nvmlDeviceGetDecoderUtilization(nvml_device device, uint32_t *percent, uint32_t *period_us)
{
    *period_us = 1000000;
    return read_32(__func__, device, NO_KEY, percent);
}

/* "TOTAL RESERVED FREE USED" */
int nvmlDeviceGetMemoryInfo_v2(nvml_device device, struct nvml_memory *out)
{
    uint64_t values[VALUES_MAX] = {0};
    if (out->version != NVML_MEMORY_V2)
        return 25; /* NVML_ERROR_ARGUMENT_VERSION_MISMATCH */
    const int error = read_numbers(__func__, device, NO_KEY, values);
    if (error == NVML_OK)
        *out = (struct nvml_memory){out->version, values[0], values[1], values[2], values[3]};
    return error;
}

int nvmlDeviceGetPowerUsage(nvml_device device, uint32_t *out)
{
    return read_32(__func__, device, NO_KEY, out);
}

int nvmlDeviceGetEnforcedPowerLimit(nvml_device device, uint32_t *out)
{
    return read_32(__func__, device, NO_KEY, out);
}

int nvmlDeviceGetTotalEnergyConsumption(nvml_device device, uint64_t *out)
{
    return read_64(__func__, device, NO_KEY, out);
}

int nvmlDeviceGetTemperature(nvml_device device, uint32_t sensor, uint32_t *out)
{
    return sensor ? 2 : read_32(__func__, device, NO_KEY, out);
}

int nvmlDeviceGetClockInfo(nvml_device device, uint32_t clock, uint32_t *out)
{
    return read_32(__func__, device, (long)clock, out);
}

int nvmlDeviceGetCurrentClocksEventReasons(nvml_device device, uint64_t *out)
{
    return read_64(__func__, device, NO_KEY, out);
}

int nvmlDeviceGetCurrPcieLinkGeneration(nvml_device device, uint32_t *out)
{
    return read_32(__func__, device, NO_KEY, out);
}

int nvmlDeviceGetCurrPcieLinkWidth(nvml_device device, uint32_t *out)
{
    return read_32(__func__, device, NO_KEY, out);
}

int nvmlDeviceGetPcieReplayCounter(nvml_device device, uint32_t *out)
{
    return read_32(__func__, device, NO_KEY, out);
}

int nvmlDeviceGetTotalEccErrors(nvml_device device, uint32_t severity, uint32_t since, uint64_t *out)
{
    return since ? 2 : read_64(__func__, device, (long)severity, out);
}

int nvmlDeviceGetRemappedRows(nvml_device device, uint32_t *correctable, uint32_t *uncorrectable, uint32_t *pending,
                              uint32_t *failed)
{
    uint64_t values[VALUES_MAX] = {0};
    const int error = read_numbers(__func__, device, NO_KEY, values);
    if (error != NVML_OK)
        return error;
    *correctable = (uint32_t)values[0];
    *uncorrectable = (uint32_t)values[1];
    *pending = (uint32_t)values[2];
    *failed = (uint32_t)values[3];
    return NVML_OK;
}

/* As the real library: too small an array is error 7, with the number of processes. */
static int list_processes(const char *function, const char *lines, nvml_device device, uint32_t *count,
                          struct nvml_process *out)
{
    char rest[256];
    uint32_t found = 0, instance;
    const int error = call(function, index_of(device), NO_KEY, rest);
    if (error != NVML_OK && error != NVML_NOT_SUPPORTED)
        return error;
    FILE *script = open_script();
    while (next_line(script, lines, index_of(device), NO_KEY, rest)) {
        struct nvml_process p = {.gpu_instance = UINT32_MAX, .compute_instance = UINT32_MAX};
        const int words = sscanf(rest, "%" SCNu32 " %" SCNu64 " %" SCNu32, &p.pid, &p.memory, &instance);
        p.gpu_instance = words == 3 ? instance : UINT32_MAX;
        if (found < *count)
            out[found] = p;
        found++;
    }
    fclose(script);
    const bool is_too_small = found > *count;
    *count = found;
    return is_too_small ? NVML_INSUFFICIENT_SIZE : NVML_OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device device, uint32_t *count, struct nvml_process *out)
{
    return list_processes(__func__, "process", device, count, out);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(nvml_device device, uint32_t *count, struct nvml_process *out)
{
    return list_processes(__func__, "graphics", device, count, out);
}

int nvmlDeviceGetProcessUtilization(nvml_device device, struct nvml_process_sample *out, uint32_t *count,
                                    uint64_t since_us)
{
    char rest[256];
    uint32_t found = 0;
    const int error = call(__func__, index_of(device), NO_KEY, rest);
    if (error != NVML_OK && error != NVML_NOT_SUPPORTED)
        return error;
    FILE *script = open_script();
    while (found < *count && next_line(script, "sample", index_of(device), NO_KEY, rest)) {
        struct nvml_process_sample sample = {0};
        if (sscanf(rest, "%" SCNu32 " %" SCNu32 " %" SCNu64, &sample.pid, &sample.sm, &sample.time_us) != 3)
            continue;
        sample.time_us = sample.time_us ? sample.time_us : (uint64_t)time(NULL) * 1000000;
        if (sample.time_us > since_us)
            out[found++] = sample;
    }
    fclose(script);
    *count = found;
    return found ? NVML_OK : NVML_NOT_FOUND;
}

int nvmlDeviceGetMigMode(nvml_device device, uint32_t *current, uint32_t *pending)
{
    *pending = 0;
    return read_32(__func__, device, NO_KEY, current);
}

int nvmlDeviceGetMaxMigDeviceCount(nvml_device device, uint32_t *count)
{
    return read_32(__func__, device, NO_KEY, count);
}

/* The number is that of the instance as a DEVICE of further lines. */
int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device device, uint32_t index, nvml_device *mig)
{
    uint32_t number = 0;
    const int error = read_32(__func__, device, (long)index, &number);
    *mig = (nvml_device)(intptr_t)(number + 1); /* NOLINT: a handle, never dereferenced */
    return error == NVML_NOT_SUPPORTED ? NVML_NOT_FOUND : error;
}

int nvmlDeviceGetGpuInstanceId(nvml_device mig, uint32_t *id)
{
    return read_32(__func__, mig, NO_KEY, id);
}

int nvmlGpmQueryDeviceSupport(nvml_device device, struct nvml_gpm_support *out)
{
    return read_32(__func__, device, NO_KEY, &out->is_supported);
}

/* A sample is the number of samples that were taken before it, and its device. */
struct sample {
    unsigned number;
    nvml_device device;
};

int nvmlGpmSampleAlloc(void **sample)
{
    static struct sample all[32];
    static unsigned count;
    *sample = &all[count++ % 32];
    return NVML_OK;
}

int nvmlGpmSampleGet(nvml_device device, void *sample)
{
    static unsigned number;
    *(struct sample *)sample = (struct sample){++number, device};
    return NVML_OK;
}

/* Thousandths of a percent. Samples in the wrong order are an error. */
int nvmlGpmMetricsGet(struct nvml_gpm_metrics *out)
{
    const struct sample *first = out->samples[0], *second = out->samples[1];
    if (out->version != NVML_GPM_VERSION || first->number >= second->number || first->device != second->device)
        return 2; /* NVML_ERROR_INVALID_ARGUMENT */
    for (uint32_t i = 0; i < out->count; i++) {
        uint32_t thousandths = 0;
        out->metrics[i].error = read_32(__func__, first->device, (long)out->metrics[i].id, &thousandths);
        out->metrics[i].value = thousandths / 1000.0;
    }
    return NVML_OK;
}

int nvmlDeviceGetFieldValues(nvml_device device, int count, struct nvml_field *fields)
{
    char rest[256] = "";
    const int error = call(__func__, index_of(device), NO_KEY, rest);
    if (strncmp(rest, "error ", 6) == 0) /* of all fields: otherwise the line begins with a field */
        return error;
    for (int i = 0; i < count; i++) {
        fields[i].type = NVML_TYPE_ULONG_LONG;
        fields[i].error = read_64(__func__, device, (long)fields[i].id, &fields[i].value);
    }
    return NVML_OK;
}

const char *nvmlErrorString(int error)
{
    return error == 18 ? "Driver/library version mismatch" : error == 999 ? "Unknown Error" : "an error";
}
