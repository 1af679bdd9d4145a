/* See process_events.h. */
#include "pipeline/process_events.h"

#include "base/turn_time.h"
#include "pipeline/pipeline_private.h"
#include "pipeline/thread_contexts.h"
#include "pipeline/unwind_publisher.h"
#include "pipeline/watched_processes.h"
#include "resolve/jit/jit.h"
#include "resolve/process/processes.h"
#include "sources/events/batch.h"

#define LOOK_AHEAD_MAX 1024                /* records */
#define EXITED_KEPT_NS (2 * 1000000000ull) /* longer than any record takes from the kernel to the pipeline */

static void note_mapped(struct pipeline *p, uint32_t pid)
{
    for (size_t i = 0; i < p->mapped_count; i++)
        if (p->mapped[i] == pid)
            return;
    if (p->publisher && p->mapped_count < MAPPED_MAX)
        p->mapped[p->mapped_count++] = pid;
    else
        p->mapped_is_incomplete = true;
}

/* Before the mappings of the old program go: what needs them is resolved, and the BPF programs must not unwind the new
 * program with them. */
static void prepare_exec(struct pipeline *p, uint32_t pid)
{
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].self && p->opened[i].signal->before_exec)
            p->opened[i].signal->before_exec(p->opened[i].self, pid);
    if (p->publisher)
        unwind_publisher_forget(p->publisher, pid);
    if (p->contexts)
        thread_contexts_forget(p->contexts, pid);
}

/* Reports the exit of this thread to the signals; tid 0: the whole process is gone and forgotten. */
static void report_exited(struct pipeline *p, uint32_t pid, uint32_t tid)
{
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].self && p->opened[i].signal->exited)
            p->opened[i].signal->exited(p->opened[i].self, pid, tid);
}

void process_events_take(struct pipeline *p, const struct record_header *record)
{
    if (record->kind == RECORD_PROCESS_EXEC)
        prepare_exec(p, record->pid);
    if (record->kind == RECORD_PROCESS_EXIT)
        report_exited(p, record->pid, record->tid);
    processes_apply(p->processes, record);
    p->mapped_is_incomplete |= record->kind == RECORD_PROCESS_LOST;
    if (record->kind == RECORD_PROCESS_MMAP || (record->kind == RECORD_PROCESS_FORK && record->pid == record->tid))
        note_mapped(p, record->pid);
}

void process_events_apply_early_mapping(struct pipeline *p, size_t exec)
{
    const uint32_t pid = batch_get(p->batch, exec)->pid;
    for (size_t i = exec + 1; i < batch_count(p->batch) && i <= exec + LOOK_AHEAD_MAX; i++) {
        const struct record_header *record = batch_get(p->batch, i);
        if (record->pid != pid)
            continue;
        if (record->kind == RECORD_PROCESS_EXEC ||
            (record->kind == RECORD_PROCESS_MMAP && processes_announce_mmap(p->processes, record)))
            return;
    }
}

void process_events_end_turn(struct pipeline *p)
{
    for (size_t i = 0; p->publisher && i < p->mapped_count && !turn_time_is_over(); i++) {
        const struct process *process = processes_find(p->processes, p->mapped[i], 0);
        unwind_publisher_mapped(p->publisher, process);
        if (p->contexts)
            thread_contexts_want(p->contexts, process);
    }
}

void process_events_forget_exited(struct pipeline *p, uint64_t now_ns)
{
    uint32_t pids[64];
    size_t count;
    do {
        count = processes_sweep(p->processes, now_ns > EXITED_KEPT_NS ? now_ns - EXITED_KEPT_NS : 0, pids,
                                array_size(pids));
        for (size_t i = 0; i < count; i++) {
            report_exited(p, pids[i], 0);
            jits_forget(p->jits, pids[i]);
            if (p->publisher)
                unwind_publisher_forget(p->publisher, pids[i]);
            if (p->contexts)
                thread_contexts_forget(p->contexts, pids[i]);
            watched_processes_forget(p->watched, pids[i]);
        }
    } while (count == array_size(pids) && !turn_time_is_over());
}
