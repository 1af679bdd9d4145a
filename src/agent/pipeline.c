/* The pipeline, and the only place that knows the order of its stages:
 *
 *     sources -> batch, in order of time -> resolve -> diagnose (requests) -> sink (aggregate, a file, ...)
 *                                              |
 *                                              +-> publisher: rows for what was sampled, to the kernel half
 *
 * Data flows one way. The publisher is no exception: what it gives the kernel are facts about files and mappings, which change
 * how much of the next stacks is walked in the kernel and never what a sample says. */
#include "agent/pipeline.h"

#include "agent/process_snapshot.h"
#include "agent/unwind_publisher.h"
#include "base/clock.h"
#include "base/log.h"
#include "diagnose/request.h"
#include "resolve/kernel.h"
#include "resolve/processes.h"
#include "resolve/samples.h"
#include "resolve/symbols.h"
#include "resolve/unwind_cache.h"
#include "resolve/wait_stacks.h"
#include "sources/batch.h"
#include "sources/pid_namespace.h"
#include "sources/request_services.h"
#include "sources/unwind_tables.h"
#include "sources/wire_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SOURCES_MAX       8
#define BATCH_BYTES       (4 << 20)
#define EXITED_KEPT_NS    (2 * 1000000000ull) /* longer than any record takes from the kernel to here */
#define MAPPED_MAX        256 /* more in one turn are published when they are sampled */

struct pipeline {
    struct pipeline_sink sink;

    struct {
        const struct source *source;
        void *self;
    } opened[SOURCES_MAX];
    size_t opened_count;
    struct batch *batch;
    struct wire_writer *record_wire;
    int record_wire_error; /* its disk is full, or the like: nothing more is written there */
    struct wire_reader *replay;

    struct processes *processes;
    struct symbols *symbols;
    struct kernel_symbols *kernel;
    struct unwind_cache *unwind_cache;
    struct sample_resolver *resolver;
    struct wait_stacks *wait_stacks;    /* that came ahead of their requests */
    struct unwind_publisher *publisher; /* NULL in a replay */
    uint32_t mapped[MAPPED_MAX];        /* processes that began or mapped code in this turn */
    size_t mapped_count;

    struct losses losses; /* of the stages after the sources */
    uint64_t samples;
};

/* ---- sources -> batch ---- */

/* A file that is damaged further on still says what stands before the damage. */
static int read_replay(struct pipeline *p)
{
    int r = wire_reader_next(p->replay, p->batch);
    if (r != -EBADMSG)
        return r;
    log_warning("the recorded wire is damaged at byte %llu (%s): what stands before it was read",
                (unsigned long long)wire_reader_position(p->replay), wire_reader_error(p->replay));
    return -ENODATA;
}

/* The wire's record is a by-product: that it ends costs nothing of what is made of the records. */
static void end_wire_record(struct pipeline *p, int error)
{
    if (error < 0)
        p->record_wire_error = log_errno(error, "the record of the wire ends here; what stands in it can be replayed");
}

static int drain_sources(struct pipeline *p)
{
    batch_clear(p->batch);
    if (p->replay)
        return read_replay(p);
    for (size_t i = 0; i < p->opened_count; i++) {
        int r = p->opened[i].source->drain(p->opened[i].self, p->batch);
        if (r < 0)
            return log_errno(r, "source %s cannot be read", p->opened[i].source->name);
    }
    batch_sort(p->batch);
    if (p->record_wire && !p->record_wire_error)
        end_wire_record(p, wire_writer_add(p->record_wire, p->batch));
    return 0;
}

/* ---- resolve -> sink ---- */

static void take_cpu_sample(struct pipeline *p, const struct cpu_sample *record)
{
    struct sample sample;
    if (!p->sink.sample)
        return;
    sample_resolve(p->resolver, record, &p->losses, &sample);
    if (p->publisher)
        unwind_publisher_want(p->publisher, processes_find(p->processes, record->h.pid, record->cgroup_id));
    if (p->sink.sample(p->sink.context, &sample) == 0)
        p->samples++;
    else
        p->losses.count[LOSS_NOT_KEPT]++;
}

static size_t name_kernel_frames(void *context, const __u64 *addresses, size_t count, struct frame *ret_frames, size_t max)
{
    struct pipeline *p = context;
    uint64_t copy[REQUEST_KERNEL_FRAMES];
    if (count > array_size(copy))
        count = array_size(copy);
    for (size_t i = 0; i < count; i++)
        copy[i] = addresses[i];
    return sample_resolve_kernel(p->resolver, copy, count, ret_frames, max);
}

/* Why a wait has no user stack; NULL: it needs none. */
static const char *count_missing_stack(struct pipeline *p, const struct request_wait *w)
{
    switch (w->user_end) {
    case REQUEST_STACK_SHED:
        p->losses.count[LOSS_SHED]++;
        return "not walked, to keep within bounds";
    case REQUEST_STACK_LOST:
    case REQUEST_STACK_APART:
        p->losses.count[LOSS_TRUNCATED]++;
        return "not kept, to stay within bounds";
    default:
        return NULL;
    }
}

static size_t name_user_frames(void *context, const struct request_record *record, const struct request_wait *w,
                               const __u64 *addresses, struct frame *ret_frames, size_t max)
{
    struct pipeline *p = context;
    const struct process *process = processes_find(p->processes, record->h.pid, record->cgroup_id);
    uint64_t copy[REQUEST_USER_FRAMES];
    unsigned end = w->user_end;
    int count = -ENOENT;
    if (w->user_end == REQUEST_STACK_APART)
        count = wait_stacks_find(p->wait_stacks, record->h.pid, w->stack, copy, array_size(copy), &end);
    else if (w->user_end < REQUEST_STACK_APART)
        for (count = 0; count < w->user_frames && count < (int)array_size(copy); count++)
            copy[count] = addresses[count];
    if (count >= 0)
        return sample_resolve_user(p->resolver, process, copy, (size_t)count, end, &p->losses, ret_frames, max);
    const char *reason = count_missing_stack(p, w);
    return reason ? sample_end_stack(reason, 0, ret_frames, max) : 0;
}

static const struct resource *find_resource(void *context, uint32_t pid, uint64_t cgroup_id)
{
    struct pipeline *p = context;
    const struct process *process = processes_find(p->processes, pid, cgroup_id);
    return process ? processes_resource(p->processes, process) : NULL;
}

static void name_service(void *context, uint32_t pid, char *out, size_t size)
{
    const struct resource *resource = find_resource(context, pid, 0);
    if (resource)
        snprintf(out, size, "%s", resource->service_name);
}

/* The stack of a wait, for a request that will come. Walking it here tells the publisher which rows were missing. */
static void take_request_stack(struct pipeline *p, const struct cpu_sample *record)
{
    uint64_t addresses[REQUEST_USER_FRAMES];
    unsigned end;
    processes_at(p->processes, record->h.time_ns);
    const struct process *process = processes_find(p->processes, record->h.pid, record->cgroup_id);
    size_t count = sample_user_stack(p->resolver, record, process, addresses, array_size(addresses), &end);
    wait_stacks_put(p->wait_stacks, record->h.pid, record->h.time_ns, addresses, count, end);
    if (p->publisher)
        unwind_publisher_want(p->publisher, process);
}

static void take_request(struct pipeline *p, const struct request_record *record)
{
    const struct request_names names = {.context = p,
                                        .kernel_frames = name_kernel_frames,
                                        .user_frames = name_user_frames,
                                        .resource = find_resource};
    struct request *request;
    if (!p->sink.request)
        return;
    if (p->publisher)
        unwind_publisher_want(p->publisher, processes_find(p->processes, record->h.pid, record->cgroup_id));
    int r = diagnose_request(record, &names, &request);
    if (r == -EBADMSG)
        p->losses.count[LOSS_DECODE]++;
    else if (r < 0 || p->sink.request(p->sink.context, request) < 0)
        p->losses.count[LOSS_REQUEST_NOT_DETAILED]++;
}

static void note_mapped(struct pipeline *p, uint32_t pid)
{
    for (size_t i = 0; i < p->mapped_count; i++)
        if (p->mapped[i] == pid)
            return;
    if (p->publisher && p->mapped_count < MAPPED_MAX)
        p->mapped[p->mapped_count++] = pid;
}

static void publish_mapped(struct pipeline *p)
{
    for (size_t i = 0; i < p->mapped_count; i++)
        unwind_publisher_mapped(p->publisher, processes_find(p->processes, p->mapped[i], 0));
    p->mapped_count = 0;
}

static void take_record(struct pipeline *p, const struct wire_header *record)
{
    switch (record->kind) {
    case WIRE_PROCESS_EXEC:
        if (p->publisher) /* the kernel half must not walk the new program by the old one's mappings */
            unwind_publisher_forget(p->publisher, record->pid);
        __attribute__((fallthrough));
    case WIRE_PROCESS_FORK:
    case WIRE_PROCESS_COMM:
    case WIRE_PROCESS_EXIT:
    case WIRE_PROCESS_MMAP:
    case WIRE_PROCESS_LOST:
        processes_apply(p->processes, record);
        if (record->kind == WIRE_PROCESS_MMAP || (record->kind == WIRE_PROCESS_FORK && record->pid == record->tid))
            note_mapped(p, record->pid);
        return;
    case WIRE_CPU_SAMPLE:
        take_cpu_sample(p, (const struct cpu_sample *)record);
        return;
    case WIRE_REQUEST_STACK:
        take_request_stack(p, (const struct cpu_sample *)record);
        return;
    case WIRE_REQUEST:
        take_request(p, (const struct request_record *)record);
        return;
    default:
        p->losses.count[LOSS_DECODE]++;
    }
}

/* Now; in a replay, as far as the records have come. */
static uint64_t time_reached_ns(const struct pipeline *p)
{
    size_t count = batch_count(p->batch);
    if (!p->replay)
        return clock_monotonic_ns();
    return count ? batch_get(p->batch, count - 1)->time_ns : 0;
}

static void forget_exited(struct pipeline *p, uint64_t now_ns)
{
    uint32_t pids[64];
    size_t count;
    do {
        count = processes_sweep(p->processes, now_ns > EXITED_KEPT_NS ? now_ns - EXITED_KEPT_NS : 0, pids, array_size(pids));
        for (size_t i = 0; p->publisher && i < count; i++)
            unwind_publisher_forget(p->publisher, pids[i]);
    } while (count == array_size(pids));
}

int pipeline_turn(struct pipeline *p)
{
    int r = drain_sources(p);
    if (r < 0)
        return r;
    for (size_t i = 0; i < batch_count(p->batch); i++)
        take_record(p, batch_get(p->batch, i));
    publish_mapped(p);
    if (p->publisher)
        unwind_publisher_run(p->publisher);
    forget_exited(p, time_reached_ns(p));
    return (int)batch_count(p->batch);
}

/* ---- life ---- */

static bool is_wanted(const struct source *source, const struct pipeline_sink *sink)
{
    if (source == &source_cpu)
        return sink->sample;
    if (source == &source_request)
        return sink->request;
    return true;
}

static int open_sources(struct pipeline *p, const struct source_options *options, struct attach_report *report)
{
    int first_error = pid_namespace_check(report);
    struct source_options with_tables = *options;
    size_t signals = 0;
    if (first_error < 0)
        return first_error;
    for (size_t i = 0; sources[i]; i++) {
        if (!is_wanted(sources[i], &p->sink))
            continue;
        void *self;
        int r = sources[i]->open(&with_tables, report, &self);
        if (r < 0) {
            first_error = first_error ? first_error : r;
            continue;
        }
        p->opened[p->opened_count].source = sources[i];
        p->opened[p->opened_count++].self = self;
        signals += sources[i] != &source_process; /* lives of processes alone are no signal */
        if (sources[i] == &source_cpu)
            with_tables.tables = cpu_source_unwind_tables(self);
    }
    return signals ? 0 : first_error;
}

static void *opened_self(const struct pipeline *p, const struct source *source)
{
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].source == source)
            return p->opened[i].self;
    return NULL;
}

/* Of whichever source has them; NULL: in a replay. */
static struct unwind_tables *find_tables(const struct pipeline *p)
{
    void *cpu = opened_self(p, &source_cpu), *request = opened_self(p, &source_request);
    if (cpu)
        return cpu_source_unwind_tables(cpu);
    return request ? request_source_unwind_tables(request) : NULL;
}

/* How the memory is shared out: what each part holds at most. */
static int make_resolvers(struct pipeline *p, uint64_t memory_bytes)
{
    int r = processes_new(memory_bytes / 8, &p->processes);
    if (r < 0)
        return r;
    r = symbols_new(&(struct symbols_options){.cache_bytes = memory_bytes / 6}, &p->symbols);
    if (r < 0)
        return r;
    r = kernel_symbols_new(NULL, &p->kernel);
    if (r < 0 && r != -EPERM)
        return r;
    r = unwind_cache_new(memory_bytes / 10, &p->unwind_cache);
    if (r < 0)
        return r;
    r = wait_stacks_new(&p->wait_stacks);
    if (r < 0)
        return r;
    return sample_resolver_new(p->processes, p->symbols, p->kernel, p->unwind_cache, &p->resolver);
}

int pipeline_new(const struct pipeline_options *options, const struct pipeline_sink *sink, struct attach_report *report,
                 struct pipeline **ret)
{
    _cleanup_(pipeline_freep) struct pipeline *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->sink = *sink;
    int r = batch_new(BATCH_BYTES, &p->batch);
    if (r < 0)
        return r;
    r = make_resolvers(p, options->memory_bytes);
    if (r < 0)
        return r;
    if (options->replay) {
        processes_set_replay(p->processes);
        r = wire_reader_open(options->replay, &p->replay);
        if (r == -EPROTO)
            return log_errno(r, "%s is no recorded wire, or one of another version", options->replay);
        if (r < 0)
            return log_errno(r, "%s cannot be read", options->replay);
    } else {
        r = processes_start_helper(p->processes);
        if (r < 0)
            log_errno(r, "no helper process: files are opened later, or not at all");
        r = open_sources(p, &options->sources, report);
        if (r < 0)
            return r;
    }
    void *request = opened_self(p, &source_request);
    struct unwind_tables *tables = find_tables(p);
    if (tables) {
        r = unwind_publisher_new(tables, p->unwind_cache, &p->publisher);
        if (r < 0)
            return r;
    }
    if (request)
        request_source_set_names(request, &(struct request_service_names){.context = p, .service = name_service});
    if (options->record_wire) {
        r = wire_writer_open(options->record_wire, &p->record_wire);
        if (r < 0)
            return log_errno(r, "%s cannot be written", options->record_wire);
    }
    *ret = take_ptr(p);
    return 0;
}

void pipeline_free(struct pipeline *p)
{
    if (!p)
        return;
    unwind_publisher_free(p->publisher); /* before the source whose tables it fills */
    for (size_t i = 0; i < p->opened_count; i++)
        p->opened[i].source->free(p->opened[i].self);
    sample_resolver_free(p->resolver);
    wait_stacks_free(p->wait_stacks);
    unwind_cache_free(p->unwind_cache);
    kernel_symbols_free(p->kernel);
    symbols_free(p->symbols);
    processes_free(p->processes);
    wire_writer_free(p->record_wire);
    wire_reader_free(p->replay);
    batch_free(p->batch);
    free(p);
}

int pipeline_start(struct pipeline *p)
{
    uint64_t start_ns = clock_monotonic_ns();
    /* The process source first: whatever lives begin after a sample could name them must be on record. */
    for (size_t i = p->opened_count; i-- > 0;) {
        int r = p->opened[i].source->start(p->opened[i].self);
        if (r < 0)
            return log_errno(r, "source %s cannot start", p->opened[i].source->name);
    }
    if (p->record_wire)
        end_wire_record(p, process_snapshot_write(p->processes, p->record_wire, start_ns)); /* now that later ones are on record */
    return 0;
}

size_t pipeline_poll_fds(struct pipeline *p, int *ret_fds, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].source->poll_fds)
            count += p->opened[i].source->poll_fds(p->opened[i].self, ret_fds + count, max - count);
    return count;
}

/* ---- figures about itself ---- */

void pipeline_shed(struct pipeline *p, enum source_detail detail)
{
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].source->shed)
            p->opened[i].source->shed(p->opened[i].self, detail);
}

void pipeline_trim(struct pipeline *p)
{
    unwind_cache_trim(p->unwind_cache);
    symbols_trim(p->symbols);
}

int pipeline_record_wire_error(const struct pipeline *p)
{
    return p->record_wire_error;
}

uint64_t pipeline_samples(const struct pipeline *p)
{
    return p->samples;
}

uint64_t pipeline_kernel_bytes(const struct pipeline *p)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].source->memory_bytes)
            bytes += p->opened[i].source->memory_bytes(p->opened[i].self);
    return bytes;
}

uint64_t pipeline_run_time_ns(const struct pipeline *p)
{
    uint64_t ns = 0;
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].source->run_time_ns)
            ns += p->opened[i].source->run_time_ns(p->opened[i].self);
    return ns;
}

uint64_t pipeline_helper_cpu_ns(struct pipeline *p)
{
    return processes_helper_cpu_ns(p->processes);
}

void pipeline_losses(const struct pipeline *p, struct losses *ret)
{
    *ret = p->losses;
    if (p->publisher)
        unwind_publisher_losses(p->publisher, ret);
    for (size_t i = 0; i < p->opened_count; i++)
        p->opened[i].source->losses(p->opened[i].self, ret);
}

void pipeline_metrics(const struct pipeline *p, struct metric_set *set)
{
    struct losses losses;
    pipeline_losses(p, &losses);
    for (int i = 0; i < LOSS_COUNT; i++)
        metric_add(set, "sonde_self_losses", METRIC_COUNTER, "", "What was seen but not delivered whole, by reason.",
                   (double)losses.count[i], METRIC_LABELS({"reason", loss_name(i)}));
    metric_add(set, "sonde_self_samples", METRIC_COUNTER, "", "CPU samples delivered.", (double)p->samples, METRIC_NO_LABELS);
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].source->metrics)
            p->opened[i].source->metrics(p->opened[i].self, set);
    processes_metrics(p->processes, set);
    symbols_metrics(p->symbols, set);
    kernel_symbols_metrics(p->kernel, set);
    unwind_cache_metrics(p->unwind_cache, set);
    if (p->publisher)
        unwind_publisher_metrics(p->publisher, set);
}
