/* See gpu_hang_report.h. */
#include "gpu_report/gpu_hang_report.h"

#include "base/starts_with.h"
#include "base/units.h"

#include <inttypes.h>
#include <string.h>

#define BUSY_MIN 95 /* percent */

/* ---- the verdict ---- */

static bool is_nccl(const char *call)
{
    return starts_with(call, "nccl");
}

/* Whether a thread in this call waits for the GPU, or for other ranks. A copy waits in it unless it is asynchronous. */
static bool waits_in(const char *call)
{
    return is_nccl(call) || strstr(call, "Synchronize") || (starts_with(call, "cuMemcpy") && !strstr(call, "Async"));
}

/* The thread that has waited for longest; NULL: none waits. */
static const struct process_thread *find_waiting(const struct gpu_hang_report *r)
{
    const struct process_thread *found = NULL;
    for (size_t i = 0; i < r->thread_count; i++)
        if (waits_in(r->threads[i].call) && (!found || r->threads[i].waited_ns > found->waited_ns))
            found = &r->threads[i];
    return found;
}

static void put_process(const struct gpu_hang_report *r, struct buf *out)
{
    buf_put_shown(out, r->command[0] ? r->command : "a process");
    buf_printf(out, " (process %" PRIu32 ")", r->pid);
}

/* "thread 4712 has been in cuStreamSynchronize for 31.0 s" */
static void put_waiting(const struct process_thread *t, struct buf *out)
{
    char duration[32];
    buf_printf(out, "thread %" PRIu32 " %s %s", t->tid, t->waited_ns ? "has been in" : "is in", t->call);
    if (t->waited_ns)
        buf_printf(out, ", off its CPU, for %s", units_format_duration(t->waited_ns, duration, sizeof(duration)));
}

/* ", 12 kernels were launched in 4.50 s, and GPU 0 was busy 97 % of the time or more" */
static void put_measured(const struct gpu_hang_report *r, struct buf *out)
{
    char duration[32];
    if (r->counts_calls) {
        units_format_duration(r->counted_ns, duration, sizeof(duration));
        if (r->launches)
            buf_printf(out, ", %" PRIu64 " kernels and graphs were launched in %s", r->launches, duration);
        else
            buf_printf(out, ", no kernel was launched in %s", duration);
    }
    if (r->has_device && r->busy_min != UINT32_MAX)
        buf_printf(out, ", and GPU %" PRIu32 "%s was busy %u %% of the time or more", r->device,
                   r->is_shared ? ", which other processes use, too," : "", r->busy_min);
}

static enum gpu_hang_verdict judge_none(const struct gpu_hang_report *r, struct buf *out)
{
    char duration[32];
    put_process(r, out);
    if (!r->thread_count) {
        buf_puts(out, " has ended");
        return GPU_HANG_NONE;
    }
    buf_printf(out,
               " does not hang in a call of CUDA or NCCL: in %s, none of its %zu threads was found in one that waits",
               units_format_duration(r->observed_ns, duration, sizeof(duration)), r->thread_count + r->omitted);
    put_measured(r, out);
    return GPU_HANG_NONE;
}

static bool is_found(const struct gpu_hang_report *r, const struct process_thread *waiting)
{
    const bool launches = r->counts_calls && r->launches;
    if (launches)
        return false;
    if (is_nccl(waiting->call))
        return r->ranks[0] && waiting->waited_ns >= NCCL_HANG_AFTER_NS;
    return r->event[0] || (waiting->waited_ns >= GPU_HANG_AFTER_NS && r->has_device && !r->is_shared &&
                           r->busy_min != UINT32_MAX && r->busy_min >= BUSY_MIN);
}

enum gpu_hang_verdict gpu_hang_judge(const struct gpu_hang_report *r, struct buf *out)
{
    const struct process_thread *waiting = find_waiting(r);
    char ago[32];
    if (!waiting)
        return judge_none(r, out);
    const bool found = is_found(r, waiting), is_rank = is_nccl(waiting->call);
    put_process(r, out);
    buf_puts(out, found && is_rank ? " hangs: other ranks do not come: "
                  : found          ? " hangs: the GPU does not finish its work: "
                  : is_rank        ? " waits for other ranks: "
                                   : " waits for the GPU: ");
    put_waiting(waiting, out);
    put_measured(r, out);
    if (r->ranks[0])
        buf_printf(out, "; %s", r->ranks);
    if (r->event[0])
        buf_printf(out, ". %s ago the agent reported: %s", units_format_duration(r->event_ago_ns, ago, sizeof(ago)),
                   r->event);
    if (!found)
        buf_puts(out, is_rank ? ". Whether they come is not known" : ". This is a hang only if it does not end");
    return found ? GPU_HANG_FOUND : GPU_HANG_WAITS;
}

/* ---- text ---- */

static void put_stack(const char *stack, struct buf *out)
{
    for (const char *at = stack; *at;) {
        const size_t length = strcspn(at, "\n");
        buf_printf(out, "      %.*s\n", (int)length, at);
        at += length + (at[length] == '\n');
    }
}

/* "  4712 python3  S, for 31.0 s, in futex_wait_queue" and the stack. */
static void put_thread(const struct process_thread *t, struct buf *out)
{
    char duration[32];
    buf_printf(out, "\n  %" PRIu32 " ", t->tid);
    buf_put_shown(out, t->name);
    buf_printf(out, "  %c", t->state ? t->state : '?');
    if (t->waited_ns)
        buf_printf(out, ", for %s", units_format_duration(t->waited_ns, duration, sizeof(duration)));
    if (t->function[0])
        buf_printf(out, ", in %s", t->function);
    buf_putc(out, '\n');
    if (t->stack[0])
        put_stack(t->stack, out);
    else
        buf_puts(out, "      [stack unknown]\n");
}

void gpu_hang_put(const struct gpu_hang_report *r, struct buf *out)
{
    const enum gpu_hang_verdict verdict = gpu_hang_judge(r, out);
    buf_puts(out, ".\n");
    if (verdict == GPU_HANG_NONE)
        return;
    buf_printf(out, "\nThreads (%zu), innermost function first:\n", r->thread_count + r->omitted);
    for (size_t i = 0; i < r->thread_count; i++)
        put_thread(&r->threads[i], out);
    if (r->omitted)
        buf_printf(out, "\n  and %zu more\n", r->omitted);
}
