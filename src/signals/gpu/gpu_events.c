/* See gpu_events.h. */
#include "signals/gpu/gpu_events.h"

#include "base/buf.h"
#include "base/units.h"
#include "resolve/proc/thread_states.h"
#include "resolve/process/processes.h"
#include "signals/gpu/xid_catalogue.h"
#include "sources/gpu/nvml.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES  640
#define THREADS_MAX 8 /* in an event */

/* ---- one event ---- */

enum kind { XID, LOST, ECC, ROW_REMAP, RECOVERY_NEEDED, THROTTLED, HANG, DRIVER_HUNG, DRIVER_FAILED, DRIVER_RESPONDS };

static const struct node_event kinds[] = {
    [XID] = {.name = "gpu.xid"},
    [LOST] = {.name = "gpu.lost"},
    [ECC] = {.name = "gpu.ecc"},
    [ROW_REMAP] = {.name = "gpu.row_remap"},
    [RECOVERY_NEEDED] = {.name = "gpu.recovery_needed"},
    [THROTTLED] = {.name = "gpu.throttled"},
    [HANG] = {.name = "gpu.hang"},
    [DRIVER_HUNG] = {.name = "gpu.driver_hung"},
    [DRIVER_FAILED] = {.name = "gpu.driver_failed"},
    [DRIVER_RESPONDS] = {.name = "gpu.driver_responds"},
};

struct composing {
    char text[TEXT_BYTES];
    struct node_event_attribute attributes[NODE_EVENT_ATTRIBUTES_MAX];
    size_t used;
};

static void add_attribute(struct composing *c, const char *name, const char *value)
{
    if (value[0] && c->used < NODE_EVENT_ATTRIBUTES_MAX)
        c->attributes[c->used++] = (struct node_event_attribute){name, value};
}

__attribute__((format(printf, 2, 3))) static void append_text(struct composing *c, const char *format, ...)
{
    va_list arguments;
    const size_t used = strlen(c->text);
    va_start(arguments, format);
    vsnprintf(c->text + used, sizeof(c->text) - used, format, arguments);
    va_end(arguments);
}

static void emit(const struct gpu_events *e, enum kind kind, uint64_t time_ns, uint64_t duration_ns,
                 const struct composing *c)
{
    struct node_event event = kinds[kind];
    event.time_ns = time_ns;
    event.duration_ns = duration_ns;
    event.text = c->text;
    event.attributes = c->attributes;
    event.attribute_count = c->used;
    e->services->emit_event(e->services->pipeline, &event);
}

/* "GPU 0 (NVIDIA H100, 0000:3b:00.0)" and its attributes. A device that was lost early has its index only. */
static void begin_with_device(struct composing *c, const struct gpu_device *d)
{
    append_text(c, "GPU %u", d->index);
    if (d->name[0] || d->pci[0])
        append_text(c, " (%s, %s)", d->name, d->pci);
    add_attribute(c, "hw.id", d->uuid);
    add_attribute(c, "hw.name", d->name);
    add_attribute(c, "pci.address", d->pci);
}

/* The error that the driver logged before, which may be the cause. */
static void append_last_xid(const struct gpu_events *e, const struct gpu_device *d, uint64_t time_ns,
                            struct composing *c)
{
    const struct gpu_xid_count *x = gpu_state_last_xid(e->state, d);
    char duration[32];
    if (!x || time_ns < x->last_ns || time_ns - x->last_ns > GPU_XID_RELATED_NS)
        return;
    append_text(c, "; %s before, the driver logged Xid %" PRIu32 ": %s",
                units_format_duration(time_ns - x->last_ns, duration, sizeof(duration)), x->code,
                xid_find(x->code)->meaning);
}

/* ---- processes ---- */

struct named_process {
    char pid[16];
    const char *command; /* "": not known */
    const struct resource *resource;
};

/* `command`: the name that the driver gives; "": the agent's is taken. */
static struct named_process name_process(const struct gpu_events *e, uint32_t pid, const char *command)
{
    struct processes *processes = e->services->processes;
    const struct process *process = processes && pid ? processes_find(processes, pid, 0) : NULL;
    const struct resource *resource = process ? processes_resource(processes, process) : &resource_unknown;
    struct named_process named = {.command = command[0] ? command : resource->command, .resource = resource};
    if (pid)
        snprintf(named.pid, sizeof(named.pid), "%" PRIu32, pid);
    return named;
}

/* "python3 (pid 4711, trainer.service)" */
static void append_process(struct composing *c, const struct named_process *p)
{
    append_text(c, "%s (pid %s%s%s)", p->command[0] ? p->command : "a process", p->pid,
                p->resource->service_name[0] ? ", " : "", p->resource->service_name);
}

static void add_process_attributes(struct composing *c, const struct named_process *p)
{
    add_attribute(c, "process.pid", p->pid);
    add_attribute(c, "process.command", p->command);
    add_attribute(c, "service.name", p->resource->service_name);
    add_attribute(c, "container.id", p->resource->container_id);
}

/* ---- hangs ---- */

static void add_rank_attributes(struct composing *c, const struct nccl_communicator *n, char rank[24], char pid[24])
{
    const struct nccl_rank *named = n->behind_count ? &n->behind : n->missing_count ? &n->missing : NULL;
    add_attribute(c, "nccl.communicator", n->hash);
    if (!named)
        return;
    snprintf(rank, 24, "%" PRId64, named->rank);
    snprintf(pid, 24, "%" PRId64, named->pid);
    add_attribute(c, "nccl.rank", rank);
    add_attribute(c, "nccl.rank.host", named->host);
    if (named->pid >= 0)
        add_attribute(c, "nccl.rank.pid", pid);
}

void gpu_events_hang(const struct gpu_events *e, const struct gpu_hang *hang, const struct gpu_hang_evidence *evidence)
{
    const struct named_process process = name_process(e, hang->pid, "");
    _cleanup_buf_ struct buf threads = {0}, ranks = {0};
    struct composing c = {0};
    char waited[32], idle[32], tid[16], launches[24], rank[24], rank_pid[24];
    snprintf(tid, sizeof(tid), "%" PRIu32, hang->calls.waiting_tid);
    snprintf(launches, sizeof(launches), "%" PRIu64, hang->calls.launches);
    thread_states_put(hang->pid, hang->calls.waiting_tid, THREADS_MAX, &threads);
    begin_with_device(&c, hang->device);
    append_text(&c, " does not finish the work of ");
    append_process(&c, &process);
    append_text(&c,
                ": thread %s has waited for it for %s in %s, no kernel was launched for %s, and it is busy all "
                "the time",
                tid, units_format_duration(hang->waited_ns, waited, sizeof(waited)),
                evidence->call[0] ? evidence->call : "one call",
                units_format_duration(hang->idle_ns, idle, sizeof(idle)));
    if (evidence->communicator) {
        nccl_communicator_put(evidence->communicator, &ranks);
        append_text(&c, "; %s", ranks.data ? ranks.data : "");
    }
    append_last_xid(e, hang->device, hang->time_ns, &c);
    add_process_attributes(&c, &process);
    add_attribute(&c, "thread.id", tid);
    add_attribute(&c, "call", evidence->call);
    add_attribute(&c, "launches", launches);
    add_attribute(&c, "threads", threads.data ? threads.data : "");
    add_attribute(&c, "stacks", evidence->stacks ? evidence->stacks : "");
    if (evidence->communicator)
        add_rank_attributes(&c, evidence->communicator, rank, rank_pid);
    emit(e, HANG, hang->time_ns, hang->waited_ns, &c);
}

/* ---- Xid ---- */

/* What the process did last, where its calls are counted: they are read once a second. */
static void append_last_calls(const struct gpu_events *e, const struct gpu_xid *xid, struct composing *c)
{
    const struct cuda_activity_process *calls = cuda_activity_find(e->services->cuda_activity, xid->h.pid);
    char text[32];
    if (!calls)
        return;
    append_text(c, "; launches counted: %" PRIu64, calls->launches);
    if (calls->launches && xid->h.time_ns > calls->launched_ns)
        append_text(c, ", the last one about %s before",
                    units_format_duration(xid->h.time_ns - calls->launched_ns, text, sizeof(text)));
    if (calls->waiting_tid && xid->h.time_ns > calls->waiting_ns)
        append_text(c, "; thread %" PRIu32 " had waited for the GPU for %s", calls->waiting_tid,
                    units_format_duration(xid->h.time_ns - calls->waiting_ns, text, sizeof(text)));
}

void gpu_events_xid(const struct gpu_events *e, const struct gpu_list *list, const struct gpu_xid *xid)
{
    const struct gpu_device *device = gpu_list_at(list, xid->pci);
    const struct xid *known = xid_find(xid->code);
    const struct named_process process = name_process(e, xid->h.pid, xid->process);
    struct composing c = {0};
    char code[16];
    if (device) {
        begin_with_device(&c, device);
    } else {
        append_text(&c, "GPU at %s", xid->pci);
        add_attribute(&c, "pci.address", xid->pci);
    }
    append_text(&c, ": Xid %u, %s", xid->code, known->meaning);
    if (xid->h.pid) {
        append_text(&c, ", of ");
        append_process(&c, &process);
    }
    append_text(&c, "%s%s", xid->text[0] ? ": " : "", xid->text);
    if (xid->h.pid)
        append_last_calls(e, xid, &c);
    append_text(&c, ". What to do: %s", known->action);
    snprintf(code, sizeof(code), "%u", xid->code);
    add_attribute(&c, "xid", code);
    add_process_attributes(&c, &process);
    add_attribute(&c, "action", known->action);
    emit(e, XID, xid->h.time_ns, 0, &c);
}

/* ---- the driver ---- */

void gpu_events_driver(const struct gpu_events *e, const struct gpu_driver *driver)
{
    static const enum kind changes[GPU_DRIVER_STATES] = {
        [GPU_DRIVER_RESPONDS] = DRIVER_RESPONDS, [GPU_DRIVER_HANGS] = DRIVER_HUNG, [GPU_DRIVER_FAILS] = DRIVER_FAILED};
    struct composing c = {0};
    char elapsed[32], device[16] = "", error[16] = "", failure[256];
    if (driver->device != GPU_NO_INSTANCE)
        snprintf(device, sizeof(device), "%u", driver->device);
    switch ((enum gpu_driver_state)driver->state) {
    case GPU_DRIVER_HANGS:
        append_text(&c, "NVIDIA's driver hangs: %s%s%s has not returned for %s", driver->call,
                    device[0] ? " for GPU " : "", device,
                    units_format_duration(driver->elapsed_ns, elapsed, sizeof(elapsed)));
        if (driver->wait[0])
            append_text(&c, " (its caller is in state %s)", driver->wait);
        add_attribute(&c, "call", driver->call);
        add_attribute(&c, "gpu", device);
        add_attribute(&c, "wait", driver->wait);
        break;
    case GPU_DRIVER_FAILS:
        if (driver->error)
            snprintf(error, sizeof(error), "%d", driver->error);
        append_text(&c, "%s", gpu_driver_format_failure(driver, failure, sizeof(failure)));
        add_attribute(&c, "error", error);
        break;
    case GPU_DRIVER_RESPONDS:
        append_text(&c, "NVIDIA's driver responds again");
        break;
    case GPU_DRIVER_STATES:
        break;
    }
    emit(e, changes[driver->state], driver->h.time_ns, driver->elapsed_ns, &c);
}

/* ---- polls ---- */

/* A device is lost when the driver says so, or no longer lists it. */
static void emit_lost(const struct gpu_events *e, const struct gpu_device *d, const char *why, uint64_t time_ns)
{
    struct composing c = {0};
    begin_with_device(&c, d);
    append_text(&c, " is lost: %s", why);
    append_last_xid(e, d, time_ns, &c);
    emit(e, LOST, time_ns, 0, &c);
}

/* Instances of MIG come and go. */
static bool is_missing(const struct gpu_device *was, const struct gpu_list *now)
{
    return !was->status && was->instance == GPU_NO_INSTANCE && was->uuid[0] && !gpu_list_find(now, was->uuid);
}

static void find_lost(const struct gpu_events *e, const struct gpu_list *before, const struct gpu_list *now,
                      uint64_t time_ns)
{
    for (size_t i = 0; i < now->device_count; i++) {
        const struct gpu_device *d = &now->devices[i], *was = before ? gpu_list_match(before, d) : NULL;
        if (d->status && (!was || !was->status))
            emit_lost(e, d,
                      d->status == NVML_GPU_IS_LOST      ? "it has fallen off the bus or does not answer"
                      : d->status == NVML_RESET_REQUIRED ? "it must be reset before it can be used again"
                                                         : "the driver refuses it",
                      time_ns);
    }
    for (size_t i = 0; before && i < before->device_count; i++)
        if (is_missing(&before->devices[i], now))
            emit_lost(e, &before->devices[i], "the driver does not list it any more", time_ns);
}

/* How much a counter has grown since the poll before; 0: not, or not known. */
static uint64_t growth_of(const struct gpu_device *was, const struct gpu_device *d, enum gpu_value value)
{
    uint64_t old, new;
    return was && gpu_value_of(was, value, &old) && gpu_value_of(d, value, &new) && new > old ? new - old : 0;
}

static bool became_set(const struct gpu_device *was, const struct gpu_device *d, enum gpu_value value)
{
    uint64_t old, new;
    return gpu_value_of(d, value, &new) && new && !(was && gpu_value_of(was, value, &old) && old == new);
}

static void find_memory_errors(const struct gpu_events *e, const struct gpu_device *was, const struct gpu_device *d,
                               uint64_t time_ns)
{
    const uint64_t errors = growth_of(was, d, GPU_ECC_UNCORRECTED);
    const bool has_failed = became_set(was, d, GPU_REMAP_FAILED);
    if (errors) {
        struct composing c = {0};
        char count[24];
        snprintf(count, sizeof(count), "%" PRIu64, errors);
        begin_with_device(&c, d);
        append_text(&c, ": %s uncorrected ECC errors of its memory", count);
        add_attribute(&c, "count", count);
        emit(e, ECC, time_ns, 0, &c);
    }
    if (has_failed || became_set(was, d, GPU_REMAP_PENDING)) {
        struct composing c = {0};
        begin_with_device(&c, d);
        append_text(&c, has_failed ? ": a row of its memory is damaged and cannot be replaced"
                                   : ": a row of its memory is damaged; the next reset replaces it");
        emit(e, ROW_REMAP, time_ns, 0, &c);
    }
}

static void find_recovery(const struct gpu_events *e, const struct gpu_device *was, const struct gpu_device *d,
                          uint64_t time_ns)
{
    static const char *const actions[] = {"nothing", "a reset", "a restart of the machine", "draining of P2P",
                                          "draining and a reset"};
    struct composing c = {0};
    uint64_t action;
    if (!became_set(was, d, GPU_RECOVERY_ACTION))
        return;
    (void)gpu_value_of(d, GPU_RECOVERY_ACTION, &action);
    begin_with_device(&c, d);
    append_text(&c, " needs %s, says its driver",
                action < sizeof(actions) / sizeof(actions[0]) ? actions[action] : "an unknown action");
    emit(e, RECOVERY_NEEDED, time_ns, 0, &c);
}

/* A device that is limited by its power under load does what it should: that is no event. */
static void find_throttling(struct gpu_events *e, const struct gpu_device *d, uint64_t time_ns)
{
    struct composing c = {0};
    uint64_t bits;
    if (!gpu_value_of(d, GPU_CLOCK_REASONS, &bits) || d->index >= GPU_DEVICES_MAX)
        return;
    const char *why = bits & GPU_CLOCK_HW_THERMAL       ? "it is too hot (hardware slowdown)"
                      : bits & GPU_CLOCK_SW_THERMAL     ? "it is too hot"
                      : bits & GPU_CLOCK_HW_POWER_BRAKE ? "its power supply demands it (power brake)"
                      : bits & GPU_CLOCK_HW_SLOWDOWN    ? "the hardware demands it (slowdown)"
                                                        : NULL;
    uint64_t *last_ns = &e->throttled_ns[d->index];
    if (!why || (*last_ns && time_ns - *last_ns < GPU_THROTTLED_AGAIN_NS))
        return;
    *last_ns = time_ns;
    begin_with_device(&c, d);
    append_text(&c, " has reduced its clocks, because %s", why);
    emit(e, THROTTLED, time_ns, 0, &c);
}

void gpu_events_poll(struct gpu_events *e, const struct gpu_list *before, const struct gpu_list *now, uint64_t time_ns)
{
    find_lost(e, before, now, time_ns);
    for (size_t i = 0; i < now->device_count; i++) {
        const struct gpu_device *d = &now->devices[i], *was = before ? gpu_list_match(before, d) : NULL;
        find_memory_errors(e, was, d, time_ns);
        find_recovery(e, was, d, time_ns);
        find_throttling(e, d, time_ns);
    }
}
