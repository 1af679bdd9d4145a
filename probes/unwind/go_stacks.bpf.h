/* Finds the goroutine that the current thread works for and its saved registers, for walks that reach the end of the
 * runtime's own stack (UNWIND_CFA_GOROUTINE of unwind.h). The frame pointer saved there cannot
 * be used: the runtime may have moved the goroutine's stack since, and the old one may have been reused. Memory is not
 * trusted: a goroutine's m must be the one that leads to it. Included by unwind.bpf.h. x86-64. */
#pragma once

#include <bpf/bpf_core_read.h>

static __always_inline bool go_read(void *to, __u32 size, __u64 address)
{
    return bpf_probe_read_user(to, size, (const void *)address) == 0;
}

/* The address of the goroutine whose code the current thread runs, or that its runtime works for; 0: none.
 * `ret_is_known`: the thread's g and m could be read. */
static __always_inline __u64 go_running(__s64 thread_g, __u16 g_m, __u16 m_curg, bool *ret_is_known)
{
#if defined(__TARGET_ARCH_x86)
    __u64 g, m, running, its_m;

    *ret_is_known = false;
    if (!go_read(&g, 8, BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), thread.fsbase) + thread_g) ||
        g == 0 || !go_read(&m, 8, g + g_m) || m == 0 || !go_read(&running, 8, m + m_curg))
        return 0;
    *ret_is_known = true;
    return running && go_read(&its_m, 8, running + g_m) && its_m == m ? running : 0;
#else
    *ret_is_known = false;
    return 0;
#endif
}

/* Writes the goroutine's saved registers to the walk's window. */
__noinline int unwind_find_goroutine(void)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    const struct unwind_process *process;
    struct unwind_goroutine *found;
    __u64 running, sched;
    bool is_known;
    __u32 pid;

    if (!scratch)
        return 0;
    found = &scratch->walk.window.goroutine;
    found->state = UNWIND_GOROUTINE_UNKNOWN;
    pid = scratch->walk.pid;
    process = bpf_map_lookup_elem(&unwind_processes, &pid);
    if (!process || process->interpreters.go.g_sched == 0)
        return 0;
    running = go_running(process->interpreters.go.thread_g, process->interpreters.go.g_m,
                         process->interpreters.go.m_curg, &is_known);
    sched = running + process->interpreters.go.g_sched;
    if (!running)
        found->state = is_known ? UNWIND_GOROUTINE_NONE : UNWIND_GOROUTINE_UNKNOWN;
    else if (go_read(&found->sp, 8, sched) && go_read(&found->ip, 8, sched + 8) &&
             go_read(&found->fp, 8, sched + process->interpreters.go.sched_bp))
        found->state = UNWIND_GOROUTINE_FOUND;
    return 0;
}
