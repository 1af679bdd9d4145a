/* Polls the driver of NVIDIA through the process "sonde-gpu", and follows the kernel log for its errors. On a node
 * without the driver's library it looks for it once a minute and does nothing else. The task filter does not apply. */
#include "sources/gpu/gpu.h"

#include "sources/gpu/kernel_log.h"
#include "sources/gpu/nvml.h"
#include "sources/gpu/nvml_client.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct gpu_source {
    struct nvml_client *client;
    int log; /* -1: not open */
    bool is_log_tried;
    bool is_started;
    uint64_t lost; /* records that did not fit the batch or were overwritten in the log */
};

static void gpu_free(void *self)
{
    struct gpu_source *s = self;
    if (!s)
        return;
    nvml_client_free(s->client);
    closep(&s->log);
    free(s);
}

static void gpu_freep(struct gpu_source **s)
{
    gpu_free(*s);
}

static void open_log(struct gpu_source *s)
{
    s->is_log_tried = true;
    s->log = kernel_log_open();
}

static int gpu_open(const struct source_services *services, const void *options, struct attach_report *report,
                    void **ret_self)
{
    _cleanup_(gpu_freep) struct gpu_source *s = calloc(1, sizeof(*s));
    struct attach_entry *entry = attach_report_add(report, "GPUs");
    (void)services, (void)options;
    if (!s)
        return -ENOMEM;
    s->log = -1;
    const int r = nvml_client_new(NVML_POLL_NS, &s->client);
    if (r < 0)
        return r;
    const bool has_library = nvml_client_has_library(s->client);
    entry->attached = true;
    entry->has_no_object = !has_library;
    snprintf(entry->method, sizeof(entry->method), "%s", has_library ? NVML_LIBRARY : "no NVIDIA driver");
    if (has_library)
        open_log(s);
    attach_entry_limited(entry, has_library && s->log < 0 ? "Xid errors are not seen: /dev/kmsg cannot be read" : "");
    *ret_self = take_ptr(s);
    return 0;
}

/* ---- reading ---- */

struct draining {
    struct gpu_source *s;
    struct batch *batch;
};

static void add_record(void *context, const struct record_header *record)
{
    const struct draining *d = context;
    d->s->lost += batch_add(d->batch, record) < 0;
}

static void add_xid(void *context, const struct gpu_xid *xid)
{
    add_record(context, &xid->h);
}

static void follow_log(struct gpu_source *s, struct draining *d)
{
    if (!s->is_log_tried && nvml_client_has_library(s->client)) /* the driver was installed after the start */
        open_log(s);
    const int overwritten = s->log < 0 ? 0 : kernel_log_read(s->log, add_xid, d);
    s->lost += overwritten > 0 ? (uint64_t)overwritten : 0;
}

static int gpu_drain(void *self, struct batch *batch)
{
    struct gpu_source *s = self;
    struct draining d = {s, batch};
    if (!s->is_started)
        return 0;
    nvml_client_turn(s->client, clock_monotonic_ns(), add_record, &d);
    follow_log(s, &d);
    return 0;
}

static int gpu_start(void *self)
{
    ((struct gpu_source *)self)->is_started = true;
    return 0;
}

static int gpu_stop(void *self)
{
    ((struct gpu_source *)self)->is_started = false;
    return 0;
}

/* ---- statistics ---- */

static void gpu_losses(void *self, struct losses *losses)
{
    losses->count[LOSS_RING_FULL] += ((const struct gpu_source *)self)->lost;
}

static uint64_t gpu_helper_cpu_ns(void *self)
{
    return nvml_client_cpu_ns(((const struct gpu_source *)self)->client);
}

const struct source source_gpu = {
    .name = "gpu",
    .help = "NVIDIA GPUs: health, use and errors",
    .open = gpu_open,
    .start = gpu_start,
    .stop = gpu_stop,
    .drain = gpu_drain,
    .losses = gpu_losses,
    .helper_cpu_ns = gpu_helper_cpu_ns,
    .free = gpu_free,
};
