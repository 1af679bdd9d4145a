/* The pipeline defines the order of its stages:
 *
 *     sources -> batch, in time order -> resolve -> diagnose (requests) -> sink (aggregate, a file, ...)
 *                                          |
 *                                          +-> publisher: unwind tables of sampled code, to the BPF programs
 *
 * Data flows one way. The publisher only passes facts about files and mappings to the kernel, which change how much of
 * the following stacks is unwound there and never what a sample contains. */
#include "agent/pipeline_private.h"

#include "agent/pod_watch.h"
#include "agent/process_snapshot.h"
#include "agent/request_names.h"
#include "agent/thread_contexts.h"
#include "agent/trace_links.h"
#include "agent/unwind_publisher.h"
#include "agent/wait_samples.h"
#include "agent/watched_processes.h"
#include "base/clock.h"
#include "base/log.h"
#include "diagnose/request.h"
#include "model/profile.h"
#include "resolve/interpreter/interpreters.h"
#include "resolve/jit/jit.h"
#include "resolve/lines/line_objects.h"
#include "resolve/process/processes.h"
#include "resolve/sample/samples.h"
#include "sources/attach/sample_event.h"
#include "sources/cpu/cpu.h"
#include "sources/events/batch.h"
#include "sources/events/record_file.h"
#include "sources/kernel_names/kernel_names.h"
#include "sources/link/link.h"
#include "sources/offcpu/offcpu.h"
#include "sources/request/request_services.h"
#include "sources/tables/unwind_tables.h"

#include "probes/event.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BATCH_BYTES    (4 << 20)
#define EXITED_KEPT_NS (2 * 1000000000ull) /* longer than any record takes from the kernel to the pipeline */
#define LOOK_AHEAD_MAX 1024                /* records */

void *pipeline_opened(const struct pipeline *p, const struct source *source)
{
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].source == source)
            return p->opened[i].self;
    return NULL;
}

/* ---- sources -> batch ---- */

/* Records in front of a damaged part of the file are still processed. */
static int read_replay(struct pipeline *p)
{
    int r = record_reader_next(p->replay, p->batch);
    if (r != -EBADMSG)
        return r;
    log_warning("the recording is damaged at byte %llu (%s): only the records before it were read",
                (unsigned long long)record_reader_position(p->replay), record_reader_error(p->replay));
    return -ENODATA;
}

/* --record-events is a by-product: an error ends the recording but not the pipeline. */
static void handle_recording_error(struct pipeline *p, int error)
{
    if (error < 0)
        p->record_events_error =
            log_errno(error, "--record-events stops here; the recording up to this point can be replayed");
}

static int drain_sources(struct pipeline *p)
{
    batch_begin(p->batch, clock_monotonic_ns());
    if (p->replay)
        return read_replay(p);
    for (size_t i = 0; i < p->opened_count; i++) {
        int r = p->opened[i].source->drain(p->opened[i].self, p->batch);
        if (r < 0)
            return log_errno(r, "source %s cannot be read", p->opened[i].source->name);
    }
    batch_end(p->batch, clock_monotonic_ns());
    if (p->record_events && !p->record_events_error)
        handle_recording_error(p, record_writer_add(p->record_events, p->batch));
    return 0;
}

/* ---- resolve -> sink ---- */

static void emit_sample(struct pipeline *p, const struct sample *sample)
{
    int r = p->sink.sample(p->sink.context, sample);
    uint64_t count = sample->count ? sample->count : 1;
    p->samples += r >= 0 ? count : 0;
    p->waits_given += r >= 0 && sample->type == &sample_type_off_cpu ? count : 0;
    p->losses.count[LOSS_NOT_KEPT] += r < 0 ? count : 0;
    p->losses.count[LOSS_UNLINKED] += r > 0 && r & PROFILE_UNLINKED ? count : 0;
    p->losses.count[LOSS_UNLABELLED] += r > 0 && r & PROFILE_UNLABELLED ? count : 0;
}

static void publish_process(struct pipeline *p, const struct cpu_sample *record)
{
    processes_at(p->processes, record->h.time_ns);
    const struct process *process =
        p->publisher || p->contexts ? processes_find(p->processes, record->h.pid, record->cgroup_id) : NULL;
    if (p->publisher)
        unwind_publisher_want(p->publisher, process);
    if (p->contexts)
        thread_contexts_want(p->contexts, process);
}

bool pipeline_prepare(struct pipeline *p, const uint32_t *pids, size_t count)
{
    bool is_ready = true;
    for (size_t i = 0; i < count; i++) {
        const struct process *process = p->publisher || p->contexts ? processes_find(p->processes, pids[i], 0) : NULL;
        if (process)
            processes_resource(p->processes, process); /* /proc must be read while the process exists */
        if (p->publisher)
            is_ready &= unwind_publisher_prepare(p->publisher, process);
        if (p->contexts)
            thread_contexts_want(p->contexts, process);
    }
    return is_ready;
}

static void set_event_type(struct pipeline *p, const struct sample_event *event)
{
    p->event_type = sample_type_of_event(event->name, event->unit);
}

static void take_cpu_sample(struct pipeline *p, const struct cpu_sample *record)
{
    struct sample sample;
    if (!p->sink.sample)
        return;
    publish_process(p, record); /* before resolving, which can take a while for new files; samples meanwhile profit
                                 * already */
    sample_resolve(p->resolver, record, &p->losses, &sample);
    if (p->event_type.name)
        sample.type = &p->event_type;
    emit_sample(p, &sample);
    publish_process(p, record); /* again, for unwind tables that resolving found missing */
}

/* A recording has one event record, at its beginning. */
static void take_event(struct pipeline *p, const struct event_record *record)
{
    struct sample_event *event = p->replayed_event ? NULL : calloc(1, sizeof(*event));
    if (event)
        sample_event_from_record(record, event);
    else
        p->losses.count[LOSS_DECODE]++;
    if (!event)
        return;
    p->replayed_event = event;
    set_event_type(p, event);
}

/* Code of interpreters that was evicted from the code registry is re-emitted ahead of the next sample that contains
 * it, so that sample has its names. */
static void reemit_missing_code(struct pipeline *p)
{
    struct missing_code missing[64];
    void *cpu = pipeline_opened(p, &source_cpu), *off_cpu = pipeline_opened(p, &source_off_cpu);
    size_t count;
    while ((count = interpreters_missing(p->interpreters, missing, array_size(missing))) > 0)
        for (size_t i = 0; i < count; i++) {
            if (cpu)
                cpu_source_reemit(cpu, missing[i].pid, missing[i].code, missing[i].check);
            if (off_cpu)
                off_cpu_source_reemit(off_cpu, missing[i].pid, missing[i].code, missing[i].check);
        }
}

static void emit_wait_sample(void *context, const struct sample *waits)
{
    struct pipeline *p = context;
    if (p->sink.sample)
        emit_sample(p, waits);
}

static void name_service(void *context, uint32_t pid, char *out, size_t size)
{
    struct pipeline *p = context;
    const struct process *process = processes_find(p->processes, pid, 0);
    if (process)
        snprintf(out, size, "%s", processes_resource(p->processes, process)->service_name);
}

/* Unwinds the stack of a wait ahead of its request record. Unwinding it now also reports missing unwind tables to the
 * publisher. */
static void take_request_stack(struct pipeline *p, const struct cpu_sample *record)
{
    uint64_t addresses[REQUEST_USER_FRAMES];
    unsigned end;
    const struct process *process = sample_process(p->resolver, record);
    size_t count = sample_user_stack(p->resolver, record, process, addresses, array_size(addresses), &end);
    wait_stacks_put(p->wait_stacks, record->h.pid, record->h.time_ns, addresses, count, end);
    if (p->publisher)
        unwind_publisher_want(p->publisher, process);
}

static void take_request(struct pipeline *p, const struct request_record *record)
{
    struct request_namer namer = {p->processes, p->resolver, p->wait_stacks, &p->losses};
    const struct request_names names = request_names_by(&namer);
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
    else
        p->mapped_is_incomplete = true;
}

static void publish_mapped(struct pipeline *p)
{
    for (size_t i = 0; i < p->mapped_count; i++) {
        const struct process *process = processes_find(p->processes, p->mapped[i], 0);
        unwind_publisher_mapped(p->publisher, process);
        if (p->contexts)
            thread_contexts_want(p->contexts, process);
    }
}

static void take_record(struct pipeline *p, const struct record_header *record)
{
    switch (record->kind) {
    case RECORD_PROCESS_EXEC:
        wait_samples_flush(p->waits, record->pid); /* resolve with the old program's mappings */
        if (p->publisher) /* the BPF programs must not unwind the new program with the old mappings */
            unwind_publisher_forget(p->publisher, record->pid);
        if (p->contexts)
            thread_contexts_forget(p->contexts, record->pid);
        __attribute__((fallthrough));
    case RECORD_PROCESS_FORK:
    case RECORD_PROCESS_COMM:
    case RECORD_PROCESS_EXIT:
    case RECORD_PROCESS_MMAP:
    case RECORD_PROCESS_LOST:
        if (record->kind == RECORD_PROCESS_EXIT)
            wait_samples_forget(p->waits, record->pid, record->tid);
        processes_apply(p->processes, record);
        p->mapped_is_incomplete |= record->kind == RECORD_PROCESS_LOST;
        if (record->kind == RECORD_PROCESS_MMAP || (record->kind == RECORD_PROCESS_FORK && record->pid == record->tid))
            note_mapped(p, record->pid);
        return;
    case RECORD_CPU_SAMPLE:
        take_cpu_sample(p, (const struct cpu_sample *)record);
        return;
    case RECORD_OFF_CPU_STACK:
    case RECORD_OFF_CPU_WAKER:
        wait_samples_stack(p->waits, (const struct cpu_sample *)record);
        if (record->pid) /* pid 0: an interrupt, which belongs to no process */
            publish_process(p, (const struct cpu_sample *)record);
        return;
    case RECORD_OFF_CPU:
        wait_samples_add(p->waits, (const struct off_cpu_wait *)record);
        return;
    case RECORD_EVENT:
        take_event(p, (const struct event_record *)record);
        return;
    case RECORD_REQUEST_STACK:
        take_request_stack(p, (const struct cpu_sample *)record);
        return;
    case RECORD_REQUEST:
        take_request(p, (const struct request_record *)record);
        return;
    default: /* code registry records of interpreters */
        p->losses.count[LOSS_DECODE] += interpreters_take(p->interpreters, record) < 0;
    }
}

/* The mapping record of a program's file follows its exec record shortly afterwards. Applies it early, so that
 * samples in between are resolved with it. */
static void apply_early_mapping(struct pipeline *p, size_t exec)
{
    const uint32_t pid = batch_get(p->batch, exec)->pid;
    for (size_t i = exec + 1; i < batch_count(p->batch) && i <= exec + LOOK_AHEAD_MAX; i++) {
        const struct record_header *record = batch_get(p->batch, i);
        if (record->pid != pid)
            continue;
        if (record->kind == RECORD_PROCESS_EXEC ||
            (record->kind == RECORD_PROCESS_MMAP && processes_announce_mmap(p->processes, record)))
            return;
    }
}

/* The current time; in a replay, the time of the last record. */
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
        count = processes_sweep(p->processes, now_ns > EXITED_KEPT_NS ? now_ns - EXITED_KEPT_NS : 0, pids,
                                array_size(pids));
        for (size_t i = 0; i < count; i++) {
            wait_samples_forget(p->waits, pids[i], 0);
            jits_forget(p->jits, pids[i]);
            if (p->publisher)
                unwind_publisher_forget(p->publisher, pids[i]);
            if (p->contexts)
                thread_contexts_forget(p->contexts, pids[i]);
            if (p->links)
                trace_links_forget(p->links, pids[i]);
            watched_processes_forget(p->watched, pids[i]);
        }
    } while (count == array_size(pids));
}

int pipeline_turn(struct pipeline *p)
{
    int r = drain_sources(p);
    if (r < 0)
        return r;
    processes_begin_turn(p->processes);
    if (p->pod_watch)
        pod_watch_turn(p->pod_watch, p->processes);
    jits_begin_turn(p->jits);
    for (size_t i = 0; i < batch_count(p->batch); i++) {
        const struct record_header *record = batch_get(p->batch, i);
        if (!watched_processes_want(p->watched, record))
            continue;
        take_record(p, record);
        if (record->kind == RECORD_PROCESS_EXEC)
            apply_early_mapping(p, i);
    }
    wait_samples_flush(p->waits, 0);
    publish_mapped(p);
    if (p->links)
        trace_links_turn(p->links, p->mapped, p->mapped_count, p->mapped_is_incomplete);
    p->mapped_count = p->mapped_is_incomplete = 0;
    if (p->publisher)
        unwind_publisher_run(p->publisher);
    reemit_missing_code(p);
    forget_exited(p, time_reached_ns(p));
    return (int)batch_count(p->batch);
}

/* ---- lifecycle ---- */

/* The unwind tables of whichever source has them; NULL: in a replay. */
static struct unwind_tables *find_tables(const struct pipeline *p)
{
    void *cpu = pipeline_opened(p, &source_cpu), *off_cpu = pipeline_opened(p, &source_off_cpu),
         *request = pipeline_opened(p, &source_request);
    if (cpu)
        return cpu_source_unwind_tables(cpu);
    if (off_cpu)
        return off_cpu_source_unwind_tables(off_cpu);
    return request ? request_source_unwind_tables(request) : NULL;
}

static int write_event(struct record_writer *w, const struct sample_event *event, struct batch *batch)
{
    struct event_record record;
    sample_event_to_record(event, &record);
    record.h.time_ns = clock_monotonic_ns();
    int r = batch_add(batch, &record.h);
    if (r == 0)
        r = record_writer_add(w, batch);
    batch_clear(batch);
    return r;
}

/* Creates what turns records into samples: the batch, the resolvers, the sums of waits and the files of source lines.
 */
static int make_sample_stages(struct pipeline *p, const struct pipeline_options *options)
{
    int r = batch_new(BATCH_BYTES, &p->batch);
    if (r == 0)
        r = pipeline_make_resolvers(p, options->memory_bytes, options->cache_entries);
    if (r == 0)
        r = wait_samples_new(p->resolver, options->memory_bytes / 8, &p->losses, emit_wait_sample, p, &p->waits);
    if (r == 0 && options->lines)
        r = line_objects_new(&p->line_objects);
    if (r == 0 && options->lines)
        sample_resolver_note_files(p->resolver, p->line_objects);
    return r;
}

static int make_unwind_publisher(struct pipeline *p)
{
    struct unwind_tables *tables = find_tables(p);
    return tables ? unwind_publisher_new(tables, p->unwind_cache, p->interpreters, &p->publisher) : 0;
}

static int make_watched_processes(struct pipeline *p, const struct source_options *options)
{
    if (pipeline_opened(p, &source_request)) /* with requests, all are watched */
        return 0;
    return watched_processes_new(options, pipeline_opened(p, &source_cpu), pipeline_opened(p, &source_off_cpu),
                                 &p->watched);
}

static int make_thread_contexts(struct pipeline *p)
{
    void *cpu = pipeline_opened(p, &source_cpu), *off_cpu = pipeline_opened(p, &source_off_cpu);
    if (!cpu && !off_cpu)
        return 0;
    const struct context_tables tables = cpu ? cpu_source_contexts(cpu) : off_cpu_source_contexts(off_cpu);
    return thread_contexts_new(&tables, &p->contexts);
}

static int make_trace_links(struct pipeline *p, const struct source_options *options)
{
    void *link = pipeline_opened(p, &source_link);
    return link ? trace_links_new(link, p->processes, options, &p->links) : 0;
}

/* Starts a thread: called after all forks. */
static int start_pod_watch(struct pipeline *p, const struct pipeline_options *options)
{
    if (!options->cri_socket || options->replay)
        return 0;
    return pod_watch_new(options->cri_socket, options->pod_labels, p->processes, &p->pod_watch);
}

static void set_request_names(struct pipeline *p)
{
    void *request = pipeline_opened(p, &source_request);
    if (request)
        request_source_set_names(request, &(struct request_service_names){.context = p, .service = name_service});
}

/* --record-events: the recording begins with the event that is sampled, if any. */
static int open_event_recording(struct pipeline *p, const struct pipeline_options *options)
{
    if (!options->record_events)
        return 0;
    int r = record_writer_open(options->record_events, &p->record_events);
    if (r == 0 && options->sources.event)
        r = write_event(p->record_events, options->sources.event, p->batch);
    return r < 0 ? log_errno(r, "%s cannot be written", options->record_events) : 0;
}

int pipeline_new(const struct pipeline_options *options, const struct pipeline_sink *sink, struct attach_report *report,
                 struct pipeline **ret)
{
    _cleanup_(pipeline_freep) struct pipeline *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->sink = *sink;
    if (options->sources.event)
        set_event_type(p, options->sources.event);
    int r = make_sample_stages(p, options);
    if (r == 0)
        r = options->replay ? pipeline_open_replay(p, options->replay) : pipeline_open_kernel(p, options, report);
    if (r == 0)
        r = make_unwind_publisher(p);
    if (r == 0)
        r = make_watched_processes(p, &options->sources);
    if (r == 0)
        r = make_thread_contexts(p);
    if (r == 0)
        r = make_trace_links(p, &options->sources);
    if (r == 0)
        r = start_pod_watch(p, options);
    if (r < 0)
        return r;
    set_request_names(p);
    r = open_event_recording(p, options);
    if (r < 0)
        return r;
    *ret = take_ptr(p);
    return 0;
}

void pipeline_free(struct pipeline *p)
{
    if (!p)
        return;
    unwind_publisher_free(p->publisher); /* before the source that owns its tables */
    thread_contexts_free(p->contexts);   /* likewise */
    trace_links_free(p->links);
    pod_watch_free(p->pod_watch);
    watched_processes_free(p->watched);
    for (size_t i = 0; i < p->opened_count; i++)
        p->opened[i].source->free(p->opened[i].self);
    sample_resolver_free(p->resolver);
    jits_free(p->jits);
    interpreters_free(p->interpreters);
    wait_stacks_free(p->wait_stacks);
    wait_samples_free(p->waits);
    unwind_cache_free(p->unwind_cache);
    kernel_symbols_free(p->kernel);
    kernel_names_free(p->kernel_names);
    symbols_free(p->symbols);
    line_objects_free(p->line_objects);
    processes_free(p->processes);
    record_writer_free(p->record_events);
    record_reader_free(p->replay);
    free(p->replayed_event);
    batch_free(p->batch);
    free(p);
}

int pipeline_start(struct pipeline *p)
{
    uint64_t start_ns = clock_monotonic_ns();
    /* The process source first: process lifecycle events must be recorded before the first sample that needs them. */
    for (size_t i = p->opened_count; i-- > 0;) {
        int r = p->opened[i].source->start(p->opened[i].self);
        if (r < 0)
            return log_errno(r, "source %s cannot start", p->opened[i].source->name);
        if (i + 1 == p->opened_count)
            watched_processes_start(p->watched, p->processes);
        if (i + 1 == p->opened_count && p->links) /* attach to running programs before the first sample */
            trace_links_start(p->links);
    }
    if (p->record_events)
        handle_recording_error(p, process_snapshot_write(p->processes, p->record_events,
                                                         start_ns)); /* after the process source has started, so
                                                                      * that no process is missed */
    return 0;
}

void pipeline_stop(struct pipeline *p)
{
    for (size_t i = 0; i < p->opened_count; i++) {
        int r = p->opened[i].source->stop ? p->opened[i].source->stop(p->opened[i].self) : 0;
        if (r < 0)
            log_errno(r, "source %s cannot be flushed: its in-flight records are lost", p->opened[i].source->name);
    }
}

size_t pipeline_poll_fds(struct pipeline *p, int *ret_fds, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].source->poll_fds)
            count += p->opened[i].source->poll_fds(p->opened[i].self, ret_fds + count, max - count);
    return count;
}
