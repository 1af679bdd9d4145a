/* Signal "gpu": health and use of NVIDIA GPUs, the processes on them, and events of what fails. */
#include "sources/gpu/gpu.h"

#include "base/clock.h"
#include "signals/event_rate.h"
#include "signals/gpu/gpu_events.h"
#include "signals/gpu/gpu_hangs.h"
#include "signals/gpu/gpu_metrics.h"
#include "signals/gpu/gpu_pending.h"
#include "signals/gpu/gpu_state.h"
#include "signals/signal.h"
#include "sources/gpu/nvml.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HANG_AFTER_NS 30000000000ull

struct gpu_signal {
    struct gpu_state state;
    struct gpu_list next; /* the poll that is being received */
    struct gpu_events events;
    struct gpu_hangs hangs;
    struct gpu_pending pending;
    struct event_rate xid_rate;
};

static int create_gpu(const struct signal_services *services, const void *settings, void *source, void **ret_self)
{
    struct gpu_signal *s = calloc(1, sizeof(*s));
    (void)source;
    if (!s)
        return -ENOMEM;
    s->events.services = services;
    s->events.state = &s->state;
    s->hangs.after_ns = ((const struct gpu_options *)settings)->hang_after_ns;
    s->pending.threads = services->threads;
    s->pending.ras_port = NCCL_RAS_PORT;
    *ret_self = s;
    return 0;
}

static void destroy_gpu(void *self)
{
    gpu_pending_clear(&((struct gpu_signal *)self)->pending);
    free(self);
}

#define TERMINATED(text) (memchr(text, 0, sizeof(text)) != NULL)

/* ---- polls ---- */

static bool check_device(const struct record_header *header)
{
    const struct gpu_device *r = (const struct gpu_device *)header;
    return header->size_bytes == sizeof(*r) && TERMINATED(r->uuid) && TERMINATED(r->name) && TERMINATED(r->pci);
}

static void clear_next_poll(struct gpu_signal *s)
{
    s->next.device_count = s->next.process_count = 0;
}

/* A poll begins with device 0. The poll before may have ended early: its process hung or crashed, and only the first
 * failure of several is a record. */
static void take_device(void *self, const struct record_header *header)
{
    struct gpu_signal *s = self;
    const struct gpu_device *r = (const struct gpu_device *)header;
    if (r->index == 0 && r->instance == GPU_NO_INSTANCE)
        clear_next_poll(s);
    gpu_list_add_device(&s->next, r);
}

static bool check_process(const struct record_header *header)
{
    return header->size_bytes == sizeof(struct gpu_process);
}

static void take_process(void *self, const struct record_header *header)
{
    gpu_list_add_process(&((struct gpu_signal *)self)->next, (const struct gpu_process *)header);
}

static bool check_poll(const struct record_header *header)
{
    const struct gpu_poll *r = (const struct gpu_poll *)header;
    return header->size_bytes == sizeof(*r) && TERMINATED(r->driver);
}

/* Devices that the driver does not list any more stay in the list as failed ones, until they are back. Instances of MIG
 * come and go. */
static void keep_lost(const struct gpu_list *before, struct gpu_list *now)
{
    for (size_t i = 0; i < before->device_count; i++) {
        struct gpu_device kept = before->devices[i];
        if (!kept.uuid[0] || kept.instance != GPU_NO_INSTANCE || gpu_list_find(now, kept.uuid))
            continue;
        kept.known = 0;
        kept.status = kept.status ? kept.status : NVML_NOT_FOUND;
        gpu_list_add_device(now, &kept);
    }
}

static void emit_hang(void *context, const struct gpu_hang *hang, const struct gpu_hang_evidence *evidence)
{
    gpu_events_hang(context, hang, evidence);
}

/* A replay has neither threads nor ranks. */
static void take_hang(void *self, const struct gpu_hang *hang)
{
    struct gpu_signal *s = self;
    s->state.hangs[hang->device->index]++;
    if (!s->events.services->threads || !gpu_pending_add(&s->pending, hang, clock_monotonic_ns()))
        gpu_events_hang(&s->events, hang, &(const struct gpu_hang_evidence){0});
}

static void follow_hangs(void *self, const struct mapped_processes *mapped)
{
    struct gpu_signal *s = self;
    (void)mapped;
    gpu_pending_turn(&s->pending, clock_monotonic_ns(), emit_hang, &s->events);
}

static void take_poll(void *self, const struct record_header *header)
{
    struct gpu_signal *s = self;
    if (((const struct gpu_poll *)header)->devices == 0)
        clear_next_poll(s);
    gpu_list_take_over_identities(&s->state.now, &s->next);
    gpu_events_poll(&s->events, s->state.is_polled ? &s->state.now : NULL, &s->next, header->time_ns);
    keep_lost(&s->state.now, &s->next);
    s->state.now = s->next;
    s->state.poll = *(const struct gpu_poll *)header;
    s->state.is_polled = true;
    const struct cuda_activity *calls = s->events.services->cuda_activity;
    s->state.finds_hangs = calls && calls->read_ns;
    if (s->state.poll.processes <= s->state.now.process_count) /* else it is not known which one uses a GPU alone */
        gpu_hangs_poll(&s->hangs, &s->state.now, calls, header->time_ns, take_hang, s);
    clear_next_poll(s);
}

/* ---- the driver and its errors ---- */

static bool check_driver(const struct record_header *header)
{
    const struct gpu_driver *r = (const struct gpu_driver *)header;
    return header->size_bytes == sizeof(*r) && r->state < GPU_DRIVER_STATES && TERMINATED(r->call) &&
           TERMINATED(r->wait) && TERMINATED(r->message);
}

/* Whether the node has no GPU. A library without a driver or a device is that of a container image, or of a machine
 * whose GPU was taken out. One that cannot be loaded is of another architecture, or the rest of an uninstalled driver.
 */
static bool is_absence(int error)
{
    return error == NVML_DRIVER_NOT_LOADED || error == NVML_GPU_NOT_FOUND || error == NVML_LIBRARY_NOT_FOUND;
}

static void take_driver(void *self, const struct record_header *header)
{
    struct gpu_signal *s = self;
    const struct gpu_driver *r = (const struct gpu_driver *)header;
    const bool is_absent = r->state == GPU_DRIVER_FAILS && is_absence(r->error) && !s->state.is_polled;
    clear_next_poll(s);
    if (is_absent || (r->state == s->state.driver && r->error == s->state.driver_error))
        return;
    s->state.driver = r->state;
    s->state.driver_error = r->error;
    gpu_events_driver(&s->events, r);
}

static bool check_xid(const struct record_header *header)
{
    const struct gpu_xid *r = (const struct gpu_xid *)header;
    return header->size_bytes == sizeof(*r) && TERMINATED(r->pci) && TERMINATED(r->process) && TERMINATED(r->text);
}

static void take_xid(void *self, const struct record_header *header)
{
    struct gpu_signal *s = self;
    const struct gpu_xid *r = (const struct gpu_xid *)header;
    gpu_state_count_xid(&s->state, r);
    if (event_rate_allows(&s->xid_rate, header->time_ns))
        gpu_events_xid(&s->events, &s->state.now, r);
}

static void put_metrics(void *self, struct metric_set *set)
{
    const struct gpu_signal *s = self;
    gpu_metrics_put(&s->state, s->events.services->processes, set);
}

static const struct record_type records[] = {
    {RECORD_GPU_DEVICE, check_device, take_device}, {RECORD_GPU_PROCESS, check_process, take_process},
    {RECORD_GPU_POLL, check_poll, take_poll},       {RECORD_GPU_XID, check_xid, take_xid},
    {RECORD_GPU_DRIVER, check_driver, take_driver}, {0},
};

#define FIELD(f) offsetof(struct gpu_options, f), sizeof(((struct gpu_options *)0)->f)

static const struct setting settings[] = {
    SIGNAL_ENABLED("gpu.enabled", "health and use of NVIDIA GPUs, and the errors of their driver"),
    {"gpu.hang_after", SETTING_DURATION, FIELD(hang_after_ns), 5e9, 3600e9, "a duration of 5s to 1h, such as 30s",
     "a GPU that does not finish the work of a process for so long is an event"},
    {0},
};

const struct signal signal_gpu = {
    .name = "gpu",
    .memory = {.fixed_bytes = 256u << 10},
    .source = &source_gpu,
    .flags = SIGNAL_EVENTS | SIGNAL_AUXILIARY,
    .records = records,
    .settings_bytes = sizeof(struct gpu_options),
    .defaults = &(const struct gpu_options){.enabled = true, .hang_after_ns = HANG_AFTER_NS},
    .settings = settings,
    .is_node_wide = signal_is_node_wide,
    .create = create_gpu,
    .destroy = destroy_gpu,
    .turn = follow_hangs,
    .metrics = put_metrics,
};
