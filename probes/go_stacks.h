/* Where Go's runtime keeps what a goroutine goes on with while the thread works for it on a stack of its own: in its g,
 * which the thread's variable leads to by its m (as to labels, go_labels.h). Where these fields are differs with Go's
 * version; go_stacks.bpf.h reads them. */
#pragma once

struct go_stack_layout {
    __s64 thread_g;             /* from the thread pointer: where the address of its g is */
    __u16 g_m, g_sched, m_curg; /* offsets of fields; g_sched 0: not known */
    __u16 sched_bp;             /* in g.sched, which begins with sp and pc in all versions */
};
_Static_assert(sizeof(struct go_stack_layout) == 16, "table format");
