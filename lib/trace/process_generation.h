/* The generation of this process: it is incremented in each forked child (fork.h), and so identifies traces, files and
 * queues of the parent. */
#pragma once

#include <stdatomic.h>

extern atomic_uint trace_generation;

static inline unsigned trace_generation_now(void)
{
    return atomic_load_explicit(&trace_generation, memory_order_relaxed);
}
