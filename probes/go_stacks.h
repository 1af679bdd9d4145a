/* Where Go's runtime keeps the registers of a goroutine while the thread works for it on a stack of its own: in its g,
 * which the thread-local variable leads to through its m (as for labels, go_labels.h). The field offsets depend on
 * Go's version; go_stacks.bpf.h reads them. */
#pragma once

struct go_stack_layout {
    __s64 thread_g;             /* offset from the thread pointer to the address of g */
    __u16 g_m, g_sched, m_curg; /* field offsets; g_sched 0: unknown */
    __u16 sched_bp;             /* in g.sched, which begins with sp and pc in all versions */
};
_Static_assert(sizeof(struct go_stack_layout) == 16, "table format");
