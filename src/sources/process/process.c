/* Process lifecycle events from perf side-band records of one dummy event per CPU: fork, exec, comm, mmap, exit, in
 * the kernel's order and with its clock. Adds no cost to other system calls, except a BPF program at exec() that looks
 * for a service in the environment (program_starts.h). When the kernel drops records, or when a
 * CPU comes online and runs without an event for a moment, the source writes a LOST record, and the resolver reads
 * /proc again. */
#include "sources/process/process.h"

#include "sources/attach/perf_events.h"
#include "sources/process/program_starts.h"

#include "base/clock.h"

#include "probes/process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define RING_MIN_BYTES (64U << 10)
#define RING_MAX_BYTES (512U << 10)

struct process_source {
    struct perf_events *events;
    struct program_starts *starts; /* NULL: refused by the kernel; each one is read from /proc then */
    struct batch *batch;           /* set only during a drain */
    uint64_t lost, undecodable, batch_full;
    uint64_t missed_cpus; /* CPUs that came online, whose first events were missed; not yet written to a batch */
};

/* The fields that sample_id_all appends to every record: PERF_SAMPLE_TID | TIME | CPU. */
struct sample_id {
    uint32_t pid, tid;
    uint64_t time_ns;
    uint32_t cpu, reserved;
};

static void process_free(void *self)
{
    struct process_source *s = self;

    if (!s)
        return;
    program_starts_free(s->starts);
    perf_events_free(s->events);
    free(s);
}

static size_t ring_bytes_per_cpu(const struct source_services *services)
{
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    size_t share = services->ring_bytes / (size_t)(cpus > 0 ? cpus : 1);

    return share < RING_MIN_BYTES ? RING_MIN_BYTES : share > RING_MAX_BYTES ? RING_MAX_BYTES : share;
}

static int open_events(const struct source_services *services, bool build_id, struct perf_events **ret)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_DUMMY,
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU,
        .sample_id_all = 1,
        .task = 1,
        .comm = 1,
        .comm_exec = 1,
        .mmap = 1,
        .mmap2 = 1,
        .build_id = build_id,
        .watermark = 1, /* wakes the reader at a quarter of the ring; otherwise the reader polls */
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
    };
    size_t ring_bytes = ring_bytes_per_cpu(services);

    attr.wakeup_watermark = (uint32_t)(ring_bytes / 4);
    return perf_events_open(&attr, -1, ring_bytes, ret);
}

static int process_open(const struct source_services *services, const void *options, struct attach_report *report,
                        void **ret_self)
{
    struct attach_entry *entry = attach_report_add(report, "process lifecycle");
    static const char best[] = "perf side-band, build ids", plain[] = "perf side-band";
    struct process_source *s = calloc(1, sizeof(*s));
    bool build_id = true;
    int r;

    (void)options;
    if (!s)
        return -ENOMEM;
    r = open_events(services, true, &s->events);
    if (r < 0) {
        attach_entry_refused(entry, best, r);
        build_id = false;
        r = open_events(services, false, &s->events);
    }
    if (r < 0) {
        attach_entry_refused(entry, plain, r);
        snprintf(entry->limitation, sizeof(entry->limitation), "short-lived processes have no names and no mappings");
        process_free(s);
        return r;
    }
    entry->attached = true;
    snprintf(entry->method, sizeof(entry->method), "%s", build_id ? best : plain);
    if (!build_id)
        snprintf(entry->limitation, sizeof(entry->limitation),
                 "files are identified by inode until they have been read");
    (void)program_starts_new(&s->starts);
    *ret_self = s;
    return 0;
}

static int process_start(void *self)
{
    struct process_source *s = self;

    return perf_events_enable(s->events);
}

static size_t process_poll_fds(void *self, int *ret_fds, size_t max)
{
    struct process_source *s = self;

    return perf_events_fds(s->events, ret_fds, max);
}

static bool read_sample_id(const struct perf_event_header *record, size_t fixed_bytes, struct sample_id *ret)
{
    if (record->size < fixed_bytes + sizeof(*ret))
        return false;
    memcpy(ret, (const char *)record + record->size - sizeof(*ret), sizeof(*ret));
    return true;
}

/* PERF_RECORD_FORK and _EXIT */
struct perf_task {
    struct perf_event_header header;
    uint32_t pid, parent_pid, tid, parent_tid;
    uint64_t time_ns;
};

struct perf_comm {
    struct perf_event_header header;
    uint32_t pid, tid;
    char comm[];
};

struct perf_mmap2 {
    struct perf_event_header header;
    uint32_t pid, tid;
    uint64_t start, size_bytes, file_offset;
    union {
        struct {
            uint32_t major, minor;
            uint64_t inode, inode_generation;
        };
        struct {
            uint8_t build_id_bytes;
            uint8_t reserved[3];
            uint8_t build_id[20];
        };
    };
    uint32_t protection, flags;
    char path[];
};

struct perf_lost {
    struct perf_event_header header;
    uint64_t id, events;
};

static void *begin_record(struct process_source *s, size_t size, uint16_t kind, uint64_t time_ns, uint32_t pid,
                          uint32_t tid)
{
    struct record_header *header = batch_reserve(s->batch, size);

    if (!header)
        return NULL;
    header->kind = kind;
    header->time_ns = time_ns;
    header->pid = pid;
    header->tid = tid;
    return header;
}

static int take_task(struct process_source *s, const struct perf_event_header *record)
{
    const struct perf_task *task = (const struct perf_task *)record;

    if (record->size < sizeof(*task))
        return -EBADMSG;
    if (record->type == PERF_RECORD_EXIT)
        return begin_record(s, sizeof(struct process_exit), RECORD_PROCESS_EXIT, task->time_ns, task->pid, task->tid)
                   ? 0
                   : -ENOSPC;
    struct process_fork *fork =
        begin_record(s, sizeof(*fork), RECORD_PROCESS_FORK, task->time_ns, task->pid, task->tid);
    if (!fork)
        return -ENOSPC;
    fork->parent_pid = task->parent_pid;
    fork->parent_tid = task->parent_tid;
    return 0;
}

static int take_comm(struct process_source *s, const struct perf_event_header *record)
{
    const struct perf_comm *comm = (const struct perf_comm *)record;
    bool exec = record->misc & PERF_RECORD_MISC_COMM_EXEC;
    struct process_comm *to;
    struct sample_id id;

    if (!read_sample_id(record, sizeof(*comm), &id))
        return -EBADMSG;
    to = begin_record(s, sizeof(*to), exec ? RECORD_PROCESS_EXEC : RECORD_PROCESS_COMM, id.time_ns, comm->pid,
                      comm->tid);
    if (!to)
        return -ENOSPC;
    _Static_assert(sizeof(struct process_comm) == sizeof(struct process_exec), "the two records differ in kind only");
    snprintf(to->comm, sizeof(to->comm), "%.*s", (int)(record->size - sizeof(*comm) - sizeof(id)), comm->comm);
    return 0;
}

static int take_mmap(struct process_source *s, const struct perf_event_header *record)
{
    const struct perf_mmap2 *mmap = (const struct perf_mmap2 *)record;
    struct process_mmap *to;
    struct sample_id id;
    size_t path_bytes;

    if (!read_sample_id(record, sizeof(*mmap), &id))
        return -EBADMSG;
    if (!(mmap->protection & PROT_EXEC))
        return 0;
    path_bytes = strnlen(mmap->path, record->size - sizeof(*mmap) - sizeof(id)) + 1;
    to = begin_record(s, sizeof(*to) + path_bytes, RECORD_PROCESS_MMAP, id.time_ns, mmap->pid, mmap->tid);
    if (!to)
        return -ENOSPC;
    to->start = mmap->start;
    to->size_bytes = mmap->size_bytes;
    to->file_offset = mmap->file_offset;
    to->path_bytes = (uint16_t)path_bytes;
    memcpy(to->path, mmap->path, path_bytes - 1);
    if (record->misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
        to->build_id_bytes = mmap->build_id_bytes <= PROCESS_BUILD_ID_MAX_BYTES ? mmap->build_id_bytes : 0;
        memcpy(to->build_id, mmap->build_id, to->build_id_bytes);
    } else {
        to->device_major = mmap->major;
        to->device_minor = mmap->minor;
        to->inode = mmap->inode;
        to->inode_generation = mmap->inode_generation;
    }
    return 0;
}

static int take_lost(struct process_source *s, const struct perf_event_header *record)
{
    const struct perf_lost *lost = (const struct perf_lost *)record;
    struct process_lost *to;
    struct sample_id id;

    if (!read_sample_id(record, sizeof(*lost), &id))
        return -EBADMSG;
    to = begin_record(s, sizeof(*to), RECORD_PROCESS_LOST, id.time_ns, 0, 0);
    if (!to)
        return -ENOSPC;
    to->events = lost->events;
    s->lost += lost->events;
    return 0;
}

/* The number of missed events is unknown: each new CPU counts as one. */
static int follow_cpus(struct process_source *s)
{
    int r = perf_events_follow(s->events, clock_monotonic_ns());
    struct process_lost *to;

    s->missed_cpus += r > 0 ? (uint64_t)r : 0;
    if (s->missed_cpus == 0)
        return r;
    to = begin_record(s, sizeof(*to), RECORD_PROCESS_LOST, clock_monotonic_ns(), 0, 0);
    if (to) {
        to->events = s->missed_cpus;
        s->lost += s->missed_cpus;
        s->missed_cpus = 0;
    }
    return r < 0 ? r : 0;
}

static int take_perf_record(void *context, unsigned cpu, const struct perf_event_header *record)
{
    struct process_source *s = context;
    int r = 0;

    (void)cpu;
    switch (record->type) {
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
        r = take_task(s, record);
        break;
    case PERF_RECORD_COMM:
        r = take_comm(s, record);
        break;
    case PERF_RECORD_MMAP2:
        r = take_mmap(s, record);
        break;
    case PERF_RECORD_LOST:
        r = take_lost(s, record);
        break;
    default:
        break;
    }
    if (r == -EBADMSG) {
        s->undecodable++;
        return 0;
    }
    return r; /* -ENOSPC: stays in the ring for the next batch */
}

static int process_drain(void *self, struct batch *batch)
{
    struct process_source *s = self;
    int r;

    s->batch = batch;
    r = perf_events_read(s->events, take_perf_record, s);
    if (r == -ENOSPC)
        s->batch_full++;
    if (r == 0 || r == -ENOSPC)
        r = follow_cpus(s);
    s->batch = NULL;
    return r;
}

static void process_losses(void *self, struct losses *losses)
{
    struct process_source *s = self;

    losses->count[LOSS_SIDEBAND] += s->lost;
    losses->count[LOSS_DECODE] += s->undecodable;
}

static size_t process_memory_bytes(void *self)
{
    struct process_source *s = self;

    return perf_events_bytes(s->events) + (s->starts ? program_starts_bytes(s->starts) : 0);
}

static void process_metrics(void *self, struct metric_set *set)
{
    const struct process_source *s = self;
    uint64_t runs, run_time_ns;

    if (!s->starts)
        return;
    program_starts_runs(s->starts, &runs, &run_time_ns);
    source_put_runs(set, "process", runs, run_time_ns);
}

static uint64_t process_run_time_ns(void *self)
{
    const struct process_source *s = self;
    uint64_t runs, run_time_ns = 0;

    if (s->starts)
        program_starts_runs(s->starts, &runs, &run_time_ns);
    return run_time_ns;
}

bool process_source_find_start(void *process_source, uint32_t pid, uint64_t since_ns, struct program_start *ret)
{
    const struct process_source *s = process_source;

    return s->starts && program_starts_find(s->starts, pid, since_ns, ret);
}

const struct source source_process = {
    .name = "process",
    .help = "programs started, code mapped, processes gone",
    .open = process_open,
    .start = process_start,
    .poll_fds = process_poll_fds,
    .drain = process_drain,
    .losses = process_losses,
    .metrics = process_metrics,
    .memory_bytes = process_memory_bytes,
    .run_time_ns = process_run_time_ns,
    .free = process_free,
};
