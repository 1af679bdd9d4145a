/* What the kernel half of the stacks of threads that sleep (sleeping_tasks.bpf.c) counts. One walk over all tasks is
 * made at a time. */
#pragma once

struct sleeping_tasks_stats {
    __u64 copied;     /* stacks told, to be walked in user space */
    __u64 ran;        /* not told: the thread ran while it was read */
    __u64 unreadable; /* not told: memory of another kind than a stack's, or changed by the process at this moment */
    __u64 lost;       /* not told: no room in the ring */
};
