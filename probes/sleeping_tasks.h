/* Counters of sleeping_tasks.bpf.c, which copies the stacks of sleeping threads. Only one walk over all tasks runs at
 * a time. */
#pragma once

struct sleeping_tasks_stats {
    __u64 copied;     /* stacks recorded, to be unwound in user space */
    __u64 ran;        /* not recorded: the thread ran while it was read */
    __u64 unreadable; /* not recorded: not stack memory, or changed by the process at this moment */
    __u64 lost;       /* not recorded: ring full */
};
