/* Records which goroutine a thread of a Go program runs (RECORDER_TASK), and the goroutine's wait once it no longer
 * runs. Go switches goroutines without the kernel, so this is read from the program's memory where the recorder is
 * called anyway: at the thread's sends and receives, where it wakes others, and where it leaves its CPU. The goroutine
 * that a thread ran last is remembered; when the thread is seen with another one, or none, and that one waits, its
 * reason is recorded. The same is done for the goroutine that gave the thread back to the runtime's scheduler last: it
 * may have run without being seen. A wait that has ended by then is missed. Memory is not trusted: a goroutine's id
 * must be the same as before. x86-64.
 *
 * Only for processes in `go_labels`, which user space fills. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/common/task.bpf.h"
#include "probes/recorder/recorder_goroutines.bpf.h"

/* The address of the goroutine whose code the current thread runs, 0: none. False: not known. `ret_m`: the runtime's
 * thread. */
static __always_inline bool goroutine_of_current(const struct go_labels_layout *l, __u64 *ret_m, __u64 *ret)
{
    __u64 g, its_m;
    __u64 thread = task_thread_pointer((struct task_struct *)bpf_get_current_task());
    if (!goroutine_read(&g, 8, thread + l->thread_g) || !g || !goroutine_read(ret_m, 8, g + l->g_m) || !*ret_m ||
        !goroutine_read(ret, 8, *ret_m + l->m_curg))
        return false;
    return !*ret || (goroutine_read(&its_m, 8, *ret + l->g_m) && its_m == *ret_m);
}

/* The thread no longer runs this goroutine. Returns true if it has begun to wait since it was seen last. */
static __always_inline bool record_task_wait(const struct recorder_place *place, const struct go_labels_layout *l,
                                             struct recorder_task *task, __u64 now_ns)
{
    struct go_state state;
    if (!goroutine_read(&state, sizeof(state), task->address + l->g_status) || state.id != task->id ||
        !goroutine_waits(&state))
        return false;
    __u32 reason = state.reason;
    if (task->is_told && task->reason == reason)
        return false;
    task->is_told = 1;
    task->reason = reason;
    if (!note_goroutine(bpf_get_current_pid_tgid(), task->address, task->id, reason))
        record_goroutine_state(place, l, bpf_get_current_pid_tgid(), task->address, task->id,
                               goroutine_state(l, reason), now_ns);
    return true;
}

/* The goroutine that gave thread `m` back to the runtime's scheduler last: its address is the first word on the
 * scheduler's stack (the runtime's mcall), until the thread uses that for something else. The scheduler is the first
 * field of `m`. False: not known. */
static __always_inline bool goroutine_that_left(const struct go_labels_layout *l, __u64 m, struct recorder_task *ret)
{
    __u64 scheduler, top;
    return goroutine_read(&scheduler, 8, m) && goroutine_read(&top, 8, scheduler + l->g_sched) &&
           goroutine_read(&ret->address, 8, top - 8) && ret->address &&
           goroutine_read(&ret->id, 8, ret->address + l->g_status + __builtin_offsetof(struct go_state, id)) && ret->id;
}

/* The thread runs `now`, and ran `last`, if that is not 0, when it was seen last: records the wait of a goroutine that
 * it ran in between. A goroutine that waits belongs to no thread. */
static __always_inline void record_goroutine_between(const struct recorder_place *place,
                                                     const struct go_labels_layout *l, __u64 m, __u64 last,
                                                     struct recorder_task *now, __u64 now_ns)
{
    struct recorder_task before = {};
    __u64 its_m = 1;
    if (!goroutine_that_left(l, m, &before) || before.id == last || before.id == now->id ||
        (__u32)before.id == now->before || !goroutine_read(&its_m, 8, before.address + l->g_m) || its_m)
        return;
    now->before = before.id;
    record_task_wait(place, l, &before, now_ns);
}

/* Of the current thread. `is_operation`: it sends or receives, so that its goroutine is recorded in any case;
 * otherwise only if the thread ran another one before, or this one has waited since. Returns 1 if the
 * thread has run any since it was seen last. */
static __noinline int record_goroutine(__u64 now_ns, bool is_operation)
{
    const struct recorder_place place = recorder_place();
    const __u64 current = bpf_get_current_pid_tgid();
    __u32 pid = current >> 32, tid = current;
    const struct go_labels_layout *l = bpf_map_lookup_elem(&go_labels, &pid);
    struct recorder_task now = {};
    __u64 m;
    if (!place.cpu || !l || !l->g_status || !goroutine_of_current(l, &m, &now.address))
        return 0;
    const bool is_running = now.address != 0;
    if (is_running ? !goroutine_read(&now.id, 8, now.address + l->g_status + __builtin_offsetof(struct go_state, id))
                   : !goroutine_that_left(l, m, &now))
        return 0;
    struct recorder_task *last = bpf_map_lookup_elem(&recorder_tasks, &tid);
    bool has_run = last && last->id != now.id && record_task_wait(&place, l, last, now_ns);
    const bool is_news = !last || last->id != now.id || (is_running && last->is_told);
    now.before = last ? last->before : 0;
    if (is_running && is_news)
        record_goroutine_between(&place, l, m, last ? last->id : 0, &now, now_ns);
    if (!last)
        bpf_map_update_elem(&recorder_tasks, &tid, &now, BPF_ANY);
    else if (is_news)
        *last = now;
    if (is_running && is_news)
        note_goroutine(tid, now.address, now.id, RECORDER_NO_REASON);
    if (is_running && (is_operation || is_news))
        record_goroutine_state(&place, l, tid, now.address, now.id, RECORDER_TASK_RUNS, now_ns);
    last = is_running ? NULL : bpf_map_lookup_elem(&recorder_tasks, &tid);
    if (last)
        has_run |= record_task_wait(&place, l, last, now_ns);
    return has_run || is_news;
}
