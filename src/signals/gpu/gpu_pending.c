/* See gpu_pending.h. */
#include "signals/gpu/gpu_pending.h"

#include "base/buf.h"
#include "resolve/proc/proc_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool gpu_pending_add(struct gpu_pending *p, const struct gpu_hang *hang, uint64_t now_ns)
{
    if (p->count == GPU_PENDING_MAX)
        return false;
    struct pending_hang *h = &p->all[p->count++];
    *h = (struct pending_hang){.hang = *hang, .device = *hang->device, .found_ns = now_ns};
    h->inner_pid = proc_innermost_pid(hang->pid);
    h->has_threads = !p->threads;
    p->ranks = RANKS_UNKNOWN; /* asks again, for all of them */
    return true;
}

/* ---- stacks ---- */

/* "4712 python3:" and its frames, one a line, innermost first; a thread after the other, as far as there is room. */
static char *write_stacks(const struct process_thread *threads, size_t count)
{
    struct buf out = {0};
    for (size_t i = 0; i < count; i++) {
        if (!threads[i].stack[0] || out.size + strlen(threads[i].stack) + 64 > GPU_STACKS_BYTES)
            continue;
        buf_printf(&out, "%s%" PRIu32 " ", out.size ? "\n\n" : "", threads[i].tid);
        buf_put_shown(&out, threads[i].name);
        buf_printf(&out, ":\n%s", threads[i].stack);
    }
    return out.data;
}

static void take_threads(struct gpu_pending *p, struct pending_hang *h)
{
    size_t count, omitted;
    const uint32_t waiting = h->hang.calls.waiting_tid;
    const struct process_thread *threads = process_threads_read(p->threads, waiting, &count, &omitted);
    if (count && threads[0].tid == waiting)
        memcpy(h->evidence.call, threads[0].call, sizeof(h->evidence.call));
    h->evidence.stacks = write_stacks(threads, count);
    h->has_threads = true;
}

static void follow_threads(struct gpu_pending *p, uint64_t now_ns)
{
    if (p->asked && !process_threads_is_ready(p->threads, now_ns))
        return;
    for (size_t i = 0; i < p->count && p->asked; i++)
        if (p->all[i].hang.pid == p->asked && !p->all[i].has_threads)
            take_threads(p, &p->all[i]);
    p->asked = 0;
    for (size_t i = 0; i < p->count && !p->asked; i++)
        if (!p->all[i].has_threads)
            p->asked = p->all[i].hang.pid;
    if (p->asked)
        process_threads_ask(p->threads, p->asked, now_ns);
}

/* ---- ranks ---- */

static void ask_ranks(struct gpu_pending *p, uint64_t now_ns)
{
    uint32_t pids[GPU_PENDING_MAX];
    _Static_assert(GPU_PENDING_MAX <= NCCL_PIDS_MAX, "all processes are asked for");
    for (size_t i = 0; i < p->count; i++)
        pids[i] = p->all[i].inner_pid;
    nccl_ras_ask(&p->ras, p->ras_port, pids, p->count, now_ns);
}

static size_t index_of_pid(const struct gpu_pending *p, uint32_t inner)
{
    size_t i = 0;
    while (i < p->ras.parser.pid_count && p->ras.parser.pids[i] != inner)
        i++;
    return i;
}

static void take_ranks(struct gpu_pending *p)
{
    for (size_t i = 0; i < p->count; i++) {
        const size_t index = index_of_pid(p, p->all[i].inner_pid);
        if (index < p->ras.parser.pid_count)
            p->all[i].evidence.communicator = nccl_status_stuck(&p->first, &p->ras.parser.status, index);
    }
}

static void follow_ranks(struct gpu_pending *p, uint64_t now_ns)
{
    if (p->ranks == RANKS_UNKNOWN) {
        ask_ranks(p, now_ns);
        p->ranks = RANKS_FIRST;
    } else if (p->ranks == RANKS_WAIT && now_ns - p->first_ns >= NCCL_APART_NS) {
        ask_ranks(p, now_ns);
        p->ranks = RANKS_SECOND;
    }
    if (p->ranks != RANKS_FIRST && p->ranks != RANKS_SECOND)
        return;
    const enum nccl_ras_state state = nccl_ras_turn(&p->ras, now_ns);
    if (state == NCCL_RAS_ASKING)
        return;
    if (state == NCCL_RAS_ANSWERED && p->ranks == RANKS_FIRST && p->ras.parser.status.count) {
        p->first = p->ras.parser.status;
        p->first_ns = now_ns;
        p->ranks = RANKS_WAIT;
        return;
    }
    if (state == NCCL_RAS_ANSWERED && p->ranks == RANKS_SECOND)
        take_ranks(p);
    p->ranks = RANKS_KNOWN;
}

/* ---- events ---- */

static void emit_first(struct gpu_pending *p, gpu_pending_emit *emit, void *context)
{
    struct pending_hang *first = &p->all[0];
    first->hang.device = &first->device;
    emit(context, &first->hang, &first->evidence);
    free(first->evidence.stacks);
    memmove(first, first + 1, --p->count * sizeof(*first));
}

void gpu_pending_turn(struct gpu_pending *p, uint64_t now_ns, gpu_pending_emit *emit, void *context)
{
    if (!p->count)
        return;
    if (p->threads)
        follow_threads(p, now_ns);
    follow_ranks(p, now_ns);
    while (p->count &&
           ((p->all[0].has_threads && p->ranks == RANKS_KNOWN) || now_ns - p->all[0].found_ns >= GPU_PENDING_NS))
        emit_first(p, emit, context);
    if (p->count)
        return;
    nccl_ras_end(&p->ras);
    p->ranks = RANKS_UNKNOWN;
}

void gpu_pending_clear(struct gpu_pending *p)
{
    nccl_ras_end(&p->ras);
    for (size_t i = 0; i < p->count; i++)
        free(p->all[i].evidence.stacks);
    p->count = 0;
}
