/* Locates the preempt count, which says whether an interrupt is being handled, for probes/common/context.bpf.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct preempt_count {
    int64_t distance;     /* in bytes, from a CPU's run queue to its preempt count; 0: unknown. On arm64 not 0: it is
                             found by the thread */
    bool has_rdonly_cast; /* programs can read it directly, by that function of the kernel */
    bool has_preempt_disable_for_functions; /* likewise, in programs that then call global functions */
    bool has_preempt_disable;               /* programs can disable preemption (common/preemption.bpf.h) */
};

/* Of the running kernel, from its BTF, which the first call loads (10 ms). Not from several threads. */
struct preempt_count preempt_count_find(void);
