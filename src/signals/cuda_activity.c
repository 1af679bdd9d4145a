/* See cuda_activity.h. */
#include "signals/cuda_activity.h"

#include <string.h>

const struct cuda_activity_process *cuda_activity_find(const struct cuda_activity *a, uint32_t pid)
{
    for (size_t i = 0; a && i < a->count; i++)
        if (a->processes[i].pid == pid)
            return &a->processes[i];
    return NULL;
}

void cuda_activity_update(struct cuda_activity *a, struct cuda_activity_process *processes, size_t count,
                          uint64_t read_ns)
{
    for (size_t i = 0; i < count; i++) {
        const struct cuda_activity_process *was = cuda_activity_find(a, processes[i].pid);
        processes[i].launched_ns = was && was->launches == processes[i].launches ? was->launched_ns : read_ns;
    }
    a->read_ns = read_ns;
    a->count = count;
    memcpy(a->processes, processes, count * sizeof(*processes));
}
