/* `sonde gpu`: the NVIDIA GPUs of this machine and the processes on them, now. Needs no agent. */
#include "base/clock.h"
#include "base/log.h"
#include "base/standard_output.h"
#include "base/units.h"
#include "cli/gpu/gpu_text.h"
#include "cli/subcommands.h"
#include "sources/gpu/nvml.h"
#include "sources/gpu/nvml_client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#define TURN_MS     5
#define POLL_MAX_NS (2 * NVML_INIT_MAX_NS) /* a hang ends a poll earlier */

/* What one poll brings. */
struct gathered {
    struct gpu_list list;
    struct gpu_poll poll;
    struct gpu_driver driver;
    bool is_polled, has_failed;
};

static void take_record(void *context, const struct record_header *record)
{
    struct gathered *g = context;
    switch (record->kind) {
    case RECORD_GPU_DEVICE:
        gpu_list_add_device(&g->list, (const struct gpu_device *)record);
        break;
    case RECORD_GPU_PROCESS:
        gpu_list_add_process(&g->list, (const struct gpu_process *)record);
        break;
    case RECORD_GPU_POLL:
        g->poll = *(const struct gpu_poll *)record;
        g->is_polled = true;
        break;
    case RECORD_GPU_DRIVER:
        g->driver = *(const struct gpu_driver *)record;
        g->has_failed = true;
        break;
    default:
        break;
    }
}

/* NULL: the failure does not mean that there is no GPU. */
static const char *reason_of_absence(const struct gpu_driver *driver)
{
    switch (driver->error) {
    case NVML_DRIVER_NOT_LOADED:
        return "its driver is not loaded";
    case NVML_GPU_NOT_FOUND:
        return "its driver found none";
    case NVML_LIBRARY_NOT_FOUND:
        return NVML_LIBRARY " cannot be loaded";
    default:
        return NULL;
    }
}

/* 0: the driver has no device, which is an answer. */
static int report_failure(const struct gpu_driver *driver)
{
    const char *absence = reason_of_absence(driver);
    char elapsed[32], failure[256];
    if (driver->state == GPU_DRIVER_HANGS)
        return log_errno(-ETIMEDOUT, "gpu: NVIDIA's driver hangs: %s has not returned for %s", driver->call,
                         units_format_duration(driver->elapsed_ns, elapsed, sizeof(elapsed)));
    if (absence) {
        _cleanup_buf_ struct buf out = {0};
        buf_printf(&out, "No NVIDIA GPU: %s\n", absence);
        return standard_output_write("gpu", &out);
    }
    log_error("gpu: %s", gpu_driver_format_failure(driver, failure, sizeof(failure)));
    return -EIO;
}

static int print_gpus(void)
{
    _cleanup_buf_ struct buf out = {0};
    _cleanup_(nvml_client_freep) struct nvml_client *client = NULL;
    _cleanup_free_ struct gathered *g = calloc(1, sizeof(*g));
    char elapsed[32];
    const int r = g ? nvml_client_new(&client) : -ENOMEM;
    if (r < 0)
        return r;
    if (!nvml_client_has_library(client)) {
        buf_puts(&out, "No NVIDIA GPU: " NVML_LIBRARY " was not found\n");
        return standard_output_write("gpu", &out);
    }
    const uint64_t start_ns = clock_monotonic_ns();
    while (!g->is_polled && !g->has_failed) {
        if (clock_monotonic_ns() - start_ns > POLL_MAX_NS)
            return log_errno(-ETIMEDOUT, "gpu: NVIDIA's driver has not answered for %s: look at dmesg",
                             units_format_duration(POLL_MAX_NS, elapsed, sizeof(elapsed)));
        nvml_client_turn(client, clock_monotonic_ns(), take_record, g);
        poll(NULL, 0, TURN_MS);
    }
    if (!g->is_polled)
        return report_failure(&g->driver);
    gpu_text_put(&g->list, g->poll.driver, &out);
    return standard_output_write("gpu", &out);
}

static int run_gpu(int argc, char **argv)
{
    const struct option_spec specs[] = {{0}};
    const int r = options_parse(&subcommand_gpu, specs, argc, argv, NULL);
    return r != 0 ? (r < 0 ? r : 0) : print_gpus();
}

const struct subcommand subcommand_gpu = {
    .name = "gpu",
    .synopsis = "",
    .summary = "Show the NVIDIA GPUs of this machine and the processes on them",
    .details =
        "Asks NVIDIA's driver once, through its management library (NVML), in a process that is ended if the driver\n"
        "hangs. Needs no agent. What the driver does not know is \"-\".",
    .run = run_gpu,
};
