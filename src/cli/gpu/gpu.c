/* `sonde gpu`: the NVIDIA GPUs of this machine, the processes on them, and whether they wait for the GPU, now. On a
 * terminal a live table. Devices and processes need no agent; calls of libcuda are those that an agent counts. */
#include "base/clock.h"
#include "base/end_signals.h"
#include "base/log.h"
#include "base/standard_output.h"
#include "base/units.h"
#include "cli/gpu/gpu_text.h"
#include "cli/subcommands.h"
#include "client/agent_address.h"
#include "client/agent_client.h"
#include "sources/gpu/nvml.h"
#include "sources/gpu/nvml_client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TURN_NS     5000000
#define POLLS_MAX   2                      /* without new counts of the agent */
#define POLL_MAX_NS (2 * NVML_INIT_MAX_NS) /* a hang ends a poll earlier */

struct gpu_args {
    const char *address;
    uint64_t interval_ns, duration_ns; /* duration 0: not given */
    bool json;
};

struct watch {
    const struct gpu_args *args;
    bool is_live;
    struct nvml_client *client;

    struct gpu_list next, list; /* the poll that is being received, and the last whole one */
    struct gpu_poll poll;
    uint64_t polls, interval_ns;
    struct gpu_driver driver; /* with has_failed */
    bool has_failed;

    struct agent_gpu readings[3], *before, *now; /* of the agent; NULL: none. The third place is for the next one */
    bool counts_calls;
    char calls_missing[256];
};

/* ---- the driver ---- */

static void end_poll(struct watch *w, const struct gpu_poll *poll)
{
    w->interval_ns = w->polls ? poll->h.time_ns - w->poll.h.time_ns : 0;
    w->poll = *poll;
    w->list = w->next;
    w->next.device_count = w->next.process_count = 0;
    w->polls++;
}

static void take_record(void *context, const struct record_header *record)
{
    struct watch *w = context;
    switch (record->kind) {
    case RECORD_GPU_DEVICE:
        gpu_list_add_device(&w->next, (const struct gpu_device *)record);
        break;
    case RECORD_GPU_PROCESS:
        gpu_list_add_process(&w->next, (const struct gpu_process *)record);
        break;
    case RECORD_GPU_POLL:
        end_poll(w, (const struct gpu_poll *)record);
        break;
    case RECORD_GPU_DRIVER:
        w->driver = *(const struct gpu_driver *)record;
        w->has_failed = true;
        break;
    default:
        break;
    }
}

/* An empty answer says why it is empty. */
static int print_absence(const struct watch *w, const char *reason)
{
    _cleanup_buf_ struct buf out = {0};
    buf_printf(&out,
               w->args->json ? "{\"nothing\":\"No NVIDIA GPU: %s\",\"devices\":[],\"processes\":[]}\n"
                             : "No NVIDIA GPU: %s\n",
               reason);
    return standard_output_write("gpu", &out);
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
static int report_failure(const struct watch *w)
{
    const struct gpu_driver *driver = &w->driver;
    const char *absence = reason_of_absence(driver);
    char elapsed[32], failure[256];
    if (driver->state == GPU_DRIVER_HANGS)
        return log_errno(-ETIMEDOUT, "gpu: NVIDIA's driver hangs: %s has not returned for %s", driver->call,
                         units_format_duration(driver->elapsed_ns, elapsed, sizeof(elapsed)));
    if (absence)
        return print_absence(w, absence);
    log_error("gpu: %s", gpu_driver_format_failure(driver, failure, sizeof(failure)));
    return -EIO;
}

enum waited { WAITED_POLL, WAITED_FAILURE, WAITED_SIGNAL };

static enum waited wait_for_poll(struct watch *w, const sigset_t *signals)
{
    const uint64_t polls = w->polls, start_ns = clock_monotonic_ns();
    for (;;) {
        const uint64_t now_ns = clock_monotonic_ns();
        nvml_client_turn(w->client, now_ns, take_record, w);
        if (w->polls > polls)
            return WAITED_POLL;
        if (w->has_failed || now_ns - start_ns > w->args->interval_ns + POLL_MAX_NS)
            return WAITED_FAILURE;
        if (end_signals_wait(signals, TURN_NS))
            return WAITED_SIGNAL;
    }
}

/* ---- the agent ---- */

static void explain_missing_agent(struct watch *w, int error)
{
    const char *denied = error == -ECONNREFUSED && agent_address_is_denied()
                             ? "only root and the socket's group can query the agent"
                             : NULL;
    if (denied || error == -ECONNREFUSED)
        snprintf(w->calls_missing, sizeof(w->calls_missing), "%s",
                 denied ?: "no agent runs; start one with `sonde up --set cuda.enabled=true`");
    else
        snprintf(w->calls_missing, sizeof(w->calls_missing), "the agent at %s does not answer (%s)", w->args->address,
                 strerror(-error));
}

static void explain_missing_calls(struct watch *w)
{
    snprintf(w->calls_missing, sizeof(w->calls_missing), "%s",
             !w->now->counts_calls  ? "the agent does not count them; start it with `--set cuda.enabled=true`"
             : !w->now->attachments ? "the agent has found no libcuda in use, or is short of its CPU budget"
             : !w->before           ? "the agent has not yet counted for an interval"
                                    : "");
}

/* The place of `readings` that is not in use. */
static struct agent_gpu *unused_reading(struct watch *w)
{
    struct agent_gpu *r = w->readings;
    while (r == w->before || r == w->now)
        r++;
    return r;
}

/* The agent serves the same counts again for a second. */
static void read_agent(struct watch *w)
{
    struct agent_gpu *next = unused_reading(w);
    const int r = agent_client_gpu(w->args->address, next);
    if (r < 0) {
        w->before = w->now = NULL;
        w->counts_calls = false;
        explain_missing_agent(w, r);
        return;
    }
    if (!w->now || next->time_s > w->now->time_s || !next->counts_calls) {
        w->before = w->now;
        w->now = next;
    }
    w->counts_calls = w->now->counts_calls && w->now->attachments > 0;
    explain_missing_calls(w);
}

/* ---- tables ---- */

static int print_view(const struct watch *w)
{
    _cleanup_buf_ struct buf out = {0};
    const struct gpu_view view = {.list = &w->list,
                                  .driver = w->poll.driver,
                                  .processes = w->poll.processes,
                                  .interval_ns = w->interval_ns,
                                  .before = w->before,
                                  .now = w->now,
                                  .calls_missing = w->calls_missing};
    buf_puts(&out, w->is_live ? "\033[H\033[2J" : "");
    (w->args->json ? gpu_text_put_json : gpu_text_put)(&view, &out);
    return standard_output_write("gpu", &out);
}

/* Calls are counted for an interval: only a live table is shown before. An agent that hangs serves its old counts. */
static bool is_complete(const struct watch *w)
{
    return w->is_live || !w->counts_calls || w->before || w->polls > POLLS_MAX;
}

static bool is_last(const struct watch *w, uint64_t start_ns)
{
    if (w->args->duration_ns)
        return clock_monotonic_ns() - start_ns + w->args->interval_ns > w->args->duration_ns;
    return !w->is_live;
}

static int report_no_poll(const struct watch *w)
{
    char elapsed[32];
    if (w->has_failed)
        return report_failure(w);
    return log_errno(-ETIMEDOUT, "gpu: NVIDIA's driver has not answered for %s: look at dmesg",
                     units_format_duration(POLL_MAX_NS, elapsed, sizeof(elapsed)));
}

/* Until the duration has passed, or SIGINT or SIGTERM. */
static int follow(struct watch *w)
{
    sigset_t signals;
    int r = end_signals_block(&signals);
    const uint64_t start_ns = clock_monotonic_ns();
    while (r == 0) {
        const enum waited waited = wait_for_poll(w, &signals);
        if (waited == WAITED_FAILURE)
            return report_no_poll(w);
        if (waited == WAITED_SIGNAL)
            return 0;
        read_agent(w);
        if (!is_complete(w))
            continue;
        r = print_view(w);
        if (is_last(w, start_ns))
            break;
    }
    return r;
}

static int show_gpus(const struct gpu_args *args)
{
    _cleanup_(nvml_client_freep) struct nvml_client *client = NULL;
    _cleanup_free_ struct watch *w = calloc(1, sizeof(*w));
    const int r = w ? nvml_client_new(args->interval_ns, &client) : -ENOMEM;
    if (r < 0)
        return r;
    w->args = args;
    w->is_live = isatty(STDOUT_FILENO) && !args->json && !args->duration_ns;
    w->client = client;
    return nvml_client_has_library(client) ? follow(w) : print_absence(w, NVML_LIBRARY " was not found");
}

static int run_gpu(int argc, char **argv)
{
    struct gpu_args args = {.interval_ns = 2000000000};
    const struct option_spec specs[] = {
        {'i', "interval", OPTION_DURATION, &args.interval_ns, "DURATION", "of each table (default 2s)", 1000000000,
         3600000000000ll},
        {'d', "duration", OPTION_DURATION, &args.duration_ns, "DURATION",
         "how long; default: on a terminal until Ctrl-C, else one table", 1000000000, 86400000000000ll},
        {0, "json", OPTION_FLAG, &args.json, NULL, "one JSON object a line for each table (sonde-gpu(1))", 0, 0},
        {0, "agent", OPTION_TEXT, &args.address, "ADDRESS", AGENT_ADDRESS_HELP, 0, 0},
        {0},
    };
    const int r = options_parse(&subcommand_gpu, specs, argc, argv, NULL);
    if (r != 0)
        return r < 0 ? r : 0;
    args.address = agent_address_or_default(args.address);
    return show_gpus(&args);
}

const struct subcommand subcommand_gpu = {
    .name = "gpu",
    .synopsis = "[-i DURATION] [-d DURATION] [--json] [--agent ADDRESS]",
    .summary = "Show the NVIDIA GPUs of this machine, what they do, and which programs wait for them",
    .details =
        "Asks NVIDIA's driver, through its management library (NVML), in a process that is ended if the driver hangs. On a\n"
        "terminal the tables are redrawn until Ctrl-C; otherwise they are printed once. Needs no agent for devices and\n"
        "processes. Launches, copies and waits are those that an agent with cuda.enabled counts; with them, each GPU has a\n"
        "verdict: whether programs wait for it, or do not keep it busy. What is not known is \"-\".",
    .run = run_gpu,
};
