/* The verdict on a device; see gpu_view.h. */
#include "gpu_report/gpu_view.h"

#include "base/buf.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BUSY_MIN      90  /* percent: the device has enough to do */
#define NOT_BUSY_MAX  60  /* percent: it has not */
#define WAITING_MIN   0.5 /* of a thread's time: the process waits for the device */
#define WORKING_MAX   0.2 /* it does not */
#define LAUNCHING_MIN 1   /* launches a second */

const char *gpu_verdict_name(enum gpu_verdict verdict)
{
    static const char *const names[GPU_VERDICTS] = {"unknown", "faulty", "idle", "gpu_bound", "not_kept_busy", "mixed"};
    return names[verdict];
}

/* What the processes on a device do together. */
struct use {
    size_t processes;
    bool is_known;                       /* of all of them */
    double launches;                     /* a second */
    double waits;                        /* of the process that waits most: seconds a second */
    const struct gpu_process *most_wait; /* that process; NULL: there is none */
};

static void add_process(const struct gpu_view *view, const struct gpu_process *p, struct use *use)
{
    double launches, waits;
    use->processes++;
    if (!gpu_view_launch_rate(view, p->h.pid, &launches) ||
        !gpu_view_rate(view, p->h.pid, AGENT_GPU_WAIT_SECONDS, &waits)) {
        use->is_known = false;
        return;
    }
    use->launches += launches;
    if (use->most_wait && waits <= use->waits)
        return;
    use->most_wait = p;
    use->waits = waits;
}

static struct use use_of(const struct gpu_view *view, const struct gpu_device *device)
{
    struct use use = {.is_known = !gpu_view_omitted(view)};
    for (size_t i = 0; i < view->list->process_count; i++)
        if (view->list->processes[i].device == device->index)
            add_process(view, &view->list->processes[i], &use);
    return use;
}

/* "python3 (4711)" */
static void put_process(const struct gpu_process *p, struct buf *out)
{
    char command[GPU_COMMAND_BYTES];
    gpu_view_command(p->h.pid, command);
    buf_put_shown(out, command[0] ? command : "a process");
    buf_printf(out, " (%" PRIu32 ")", p->h.pid);
}

static enum gpu_verdict judge_idle(const struct use *use, struct buf *out)
{
    if (use->processes)
        buf_printf(out, "idle: nothing runs on it, though %zu process%s it", use->processes,
                   use->processes == 1 ? " uses" : "es use");
    else
        buf_puts(out, use->is_known ? "idle: no process uses it" : "idle: nothing runs on it");
    return GPU_VERDICT_IDLE;
}

static enum gpu_verdict judge_use(double busy, const struct use *use, struct buf *out)
{
    const bool waits = use->waits >= WAITING_MIN, launches = use->launches >= LAUNCHING_MIN;
    const enum gpu_verdict verdict = busy >= BUSY_MIN && waits ? GPU_VERDICT_GPU_BOUND
                                     : busy <= NOT_BUSY_MAX && launches && use->waits <= WORKING_MAX
                                         ? GPU_VERDICT_NOT_KEPT_BUSY
                                         : GPU_VERDICT_MIXED;
    buf_puts(out, verdict == GPU_VERDICT_GPU_BOUND       ? "bound by the GPU: "
                  : verdict == GPU_VERDICT_NOT_KEPT_BUSY ? "not kept busy: "
                                                         : "");
    buf_printf(out, "busy %.0f %% of the time; ", busy);
    put_process(use->most_wait, out);
    buf_printf(out, " waits for it %.0f %%", use->waits * 100);
    if (launches || verdict != GPU_VERDICT_GPU_BOUND)
        buf_printf(out, ", %.0f launches a second", use->launches);
    else
        buf_puts(out, " and launches nothing: a long kernel or a hang (sonde events --kind gpu)");
    return verdict;
}

static enum gpu_verdict judge_device(const struct gpu_view *view, const struct gpu_device *device, struct buf *out)
{
    const struct use use = use_of(view, device);
    double busy;
    if (gpu_device_is_faulty(device)) {
        buf_puts(out, gpu_device_state_text(device));
        return GPU_VERDICT_FAULTY;
    }
    if (!gpu_view_busy(device, &busy)) {
        buf_puts(out, "its driver does not report its use");
        return GPU_VERDICT_UNKNOWN;
    }
    if (busy < 1 && use.launches < LAUNCHING_MIN && use.waits < WAITING_MIN)
        return judge_idle(&use, out);
    if (use.processes && use.is_known)
        return judge_use(busy, &use, out);
    buf_printf(out, "busy %.0f %% of the time; %s", busy,
               use.processes || !use.is_known ? "whether programs wait for it is not known"
                                              : "the driver lists no process on it");
    return GPU_VERDICT_UNKNOWN;
}

enum gpu_verdict gpu_verdict_of(const struct gpu_view *view, const struct gpu_device *device,
                                char out[GPU_VERDICT_BYTES])
{
    _cleanup_buf_ struct buf text = {0};
    const enum gpu_verdict verdict = judge_device(view, device, &text);
    snprintf(out, GPU_VERDICT_BYTES, "%s", text.data ? text.data : "");
    return verdict;
}
