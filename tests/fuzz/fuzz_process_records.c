/* Process lifecycle records in any order, valid or damaged: the table stays within its bound, returns sorted mappings,
 * and releases everything. */
#include "resolve/process/processes.h"

#include <stdlib.h>
#include <string.h>

/* Not a process of this machine, so that the result does not depend on it. */
#define FIRST_PID 0x40000000u
#define PIDS      8u

static void check(struct processes *p, uint32_t pid)
{
    const struct process *process = processes_find(p, pid, 0);
    if (!process)
        return;
    if (process->pid != pid || !processes_resource(p, process)->service_name)
        abort();
    for (size_t i = 1; i < process->mapping_count; i++)
        if (process->mappings[i].start < process->mappings[i - 1].end)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct processes *p = NULL;
    if (processes_new(256 << 10, &p) < 0)
        return 0;
    processes_set_replay(p); /* no helper process for each input */
    uint64_t time_ns = 1;
    while (size >= 8) {
        union {
            struct record_header header;
            struct process_fork fork;
            uint64_t words[64];
            uint8_t bytes[512];
        } record = {0};
        size_t take = 8 + data[0] % 31 * 8;
        const uint16_t kind = (uint16_t)(RECORD_PROCESS_FORK + data[1] % 6);
        const uint32_t pid = FIRST_PID + data[2] % PIDS, tid = data[3] % 3 ? pid : FIRST_PID + data[3] % PIDS;
        take = take < size ? take : size;
        memcpy(record.bytes + sizeof(record.header), data, take);
        record.header = (struct record_header){.size_bytes = (uint32_t)(sizeof(record.header) + take + 7) & ~7u,
                                             .kind = kind,
                                             .time_ns = time_ns += data[4],
                                             .pid = pid,
                                             .tid = tid};
        record.fork.parent_pid =
            kind == RECORD_PROCESS_FORK ? FIRST_PID + record.fork.parent_pid % PIDS : record.fork.parent_pid;
        processes_apply(p, &record.header);
        check(p, pid);
        data += take;
        size -= take;
    }
    uint32_t pids[PIDS];
    while (processes_sweep(p, UINT64_MAX, pids, PIDS) == PIDS)
        ;
    processes_free(p);
    return 0;
}
