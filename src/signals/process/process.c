/* Signal "process": process lifecycle events, which keep the pipeline's table of processes. */
#include "sources/process/process.h"
#include "resolve/process/processes.h"
#include "signals/signal.h"

#include "probes/process.h"

#include <string.h>

static void take_process(void *self, const struct record_header *header)
{
    const struct signal_services *services = self;
    services->note_process_event(services->pipeline, header);
}

static bool check_fork(const struct record_header *header)
{
    return header->size_bytes == sizeof(struct process_fork);
}

static bool check_exec(const struct record_header *header)
{
    return header->size_bytes == sizeof(struct process_exec) &&
           memchr(((const struct process_exec *)header)->comm, 0, 16);
}

static bool check_comm(const struct record_header *header)
{
    return header->size_bytes == sizeof(struct process_comm) &&
           memchr(((const struct process_comm *)header)->comm, 0, 16);
}

static bool check_exit(const struct record_header *header)
{
    return header->size_bytes == sizeof(struct process_exit);
}

static bool check_mmap(const struct record_header *header)
{
    const struct process_mmap *m = (const struct process_mmap *)header;

    if (header->size_bytes < sizeof(*m))
        return false;
    return m->path_bytes > 0 && m->path_bytes <= header->size_bytes - sizeof(*m) && m->path[m->path_bytes - 1] == 0 &&
           m->build_id_bytes <= PROCESS_BUILD_ID_MAX_BYTES && m->start + m->size_bytes >= m->start;
}

static bool check_lost(const struct record_header *header)
{
    return header->size_bytes == sizeof(struct process_lost);
}

static const struct record_type records[] = {
    {RECORD_PROCESS_FORK, check_fork, take_process},
    {RECORD_PROCESS_EXEC, check_exec, take_process},
    {RECORD_PROCESS_COMM, check_comm, take_process},
    {RECORD_PROCESS_EXIT, check_exit, take_process},
    {RECORD_PROCESS_MMAP, check_mmap, take_process},
    {RECORD_PROCESS_LOST, check_lost, take_process},
    {0},
};

static int create_process(const struct signal_services *services, const void *settings, void *source, void **ret_self)
{
    if (source)
        processes_know_starts(services->processes, process_source_find_start, source);
    return signal_create_plain(services, settings, source, ret_self);
}

const struct signal signal_process = {
    .name = "process",
    .memory = {.ring = MEMORY_SIDEBAND_RINGS, .fixed_bytes = 256u << 10},
    .source = &source_process,
    .flags = SIGNAL_ALWAYS,
    .records = records,
    .create = create_process,
};
