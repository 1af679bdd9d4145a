/* The pipeline defines the order of its stages:
 *
 *     sources -> batch, in time order -> signals: resolve, diagnose -> sink (aggregate, a file, ...)
 *                                          |
 *                                          +-> publisher: unwind tables of sampled code, to the BPF programs
 *
 * Data flows one way. The publisher only passes facts about files and mappings to the kernel, which change how much of
 * the following stacks is unwound there and never what a sample contains. */
#include "pipeline/pipeline_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/turn_time.h"
#include "config/memory.h"
#include "model/profile.h"
#include "pipeline/pod_watch.h"
#include "pipeline/process_events.h"
#include "pipeline/process_snapshot.h"
#include "pipeline/thread_contexts.h"
#include "pipeline/unwind_publisher.h"
#include "pipeline/watched_processes.h"
#include "resolve/interpreter/interpreters.h"
#include "resolve/jit/jit.h"
#include "resolve/lines/line_objects.h"
#include "resolve/lines/native_lines.h"
#include "resolve/process/processes.h"
#include "resolve/sample/samples.h"
#include "signals/own_lines.h"
#include "signals/recent_samples.h"
#include "signals/recent_waits.h"
#include "sources/attach/sample_event.h"
#include "sources/events/batch.h"
#include "sources/events/record_file.h"
#include "sources/kernel_names/kernel_names.h"

#include "probes/event.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define BATCH_BYTES     (4 << 20)
#define REST_DRAINS_MAX 16 /* of records that arrive while pipeline_drop_rest counts them */

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
        const struct source *source = p->opened[i].signal->source;
        int r = p->opened[i].source ? source->drain(p->opened[i].source, p->batch) : 0;
        if (r < 0)
            return log_errno(r, "source %s cannot be read", source->name);
    }
    if (p->tables)
        shared_tables_follow(p->tables, clock_monotonic_ns());
    batch_end(p->batch, clock_monotonic_ns());
    if (p->record_events && !p->record_events_error)
        handle_recording_error(p, record_writer_add(p->record_events, p->batch));
    return 0;
}

/* ---- signals -> sink ---- */

static void emit_sample(void *pipeline, const struct sample *sample)
{
    struct pipeline *p = pipeline;
    if (p->recent_samples)
        recent_samples_add(p->recent_samples, sample);
    if (p->threads)
        process_threads_note_sample(p->threads, sample);
    if (!p->sink.sample)
        return;
    int r = p->sink.sample(p->sink.context, sample);
    uint64_t count = sample->count ? sample->count : 1;
    p->samples += r >= 0 ? count : 0;
    p->waits_given += r >= 0 && sample->type->is_interval ? count : 0;
    p->losses.count[LOSS_NOT_KEPT] += r < 0 ? count : 0;
    p->losses.count[LOSS_UNLINKED] += r > 0 && r & PROFILE_UNLINKED ? count : 0;
    p->losses.count[LOSS_UNLABELLED] += r > 0 && r & PROFILE_UNLABELLED ? count : 0;
}

static void emit_request(void *pipeline, struct request *request)
{
    struct pipeline *p = pipeline;
    if (p->sink.request(p->sink.context, request) < 0)
        p->losses.count[LOSS_REQUEST_NOT_DETAILED]++;
}

static void emit_event(void *pipeline, const struct node_event *event)
{
    struct pipeline *p = pipeline;
    assert(event->attribute_count <= NODE_EVENT_ATTRIBUTES_MAX);
    if (p->sink.event && p->sink.event(p->sink.context, event) < 0)
        p->losses.count[LOSS_NOT_KEPT]++;
}

static void emit_opaque(void *pipeline, const struct opaque_traffic *traffic)
{
    struct pipeline *p = pipeline;
    p->sink.opaque(p->sink.context, traffic);
}

static void emit_calls(void *pipeline, const struct service_call_traffic *traffic)
{
    struct pipeline *p = pipeline;
    p->sink.calls(p->sink.context, traffic);
}

static void note_stack(void *pipeline, uint32_t pid, uint64_t cgroup_id, uint64_t time_ns)
{
    struct pipeline *p = pipeline;
    processes_at(p->processes, time_ns);
    const struct process *process = p->publisher || p->contexts ? processes_find(p->processes, pid, cgroup_id) : NULL;
    if (p->publisher)
        unwind_publisher_want(p->publisher, process);
    if (p->contexts)
        thread_contexts_want(p->contexts, process);
}

static void note_process_event(void *pipeline, const struct record_header *record)
{
    process_events_take(pipeline, record);
}

static void set_event_type(struct pipeline *p, const struct sample_event *event)
{
    p->event_type = sample_type_of_event(event->name, event->unit);
}

/* A recording has one event record, at its beginning. */
static void note_sample_event(void *pipeline, const struct event_record *record)
{
    struct pipeline *p = pipeline;
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

/* Code of interpreters that was evicted from the code registry is re-emitted ahead of the next sample that contains
 * it, so that sample has its names. */
static void reemit_missing_code(struct pipeline *p)
{
    struct missing_code missing[64];
    size_t count;
    while ((count = interpreters_missing(p->interpreters, missing, array_size(missing))) > 0)
        for (size_t i = 0; p->tables && i < count; i++)
            shared_tables_reemit(p->tables, missing[i].pid, missing[i].code, missing[i].check);
}

static void take_record(struct pipeline *p, const struct record_header *record)
{
    size_t owner;
    const struct record_type *type = signals_record_type(record->kind, &owner);
    for (size_t i = 0; type && i < p->opened_count; i++)
        if (p->opened[i].signal == all_signals[owner] && p->opened[i].self)
            type->take(p->opened[i].self, record);
}

/* The time up to which all records were taken: the current time, unless records are left. In a replay, the time of the
 * last record. */
static uint64_t time_reached_ns(const struct pipeline *p)
{
    if (p->taken == batch_count(p->batch) && !p->replay)
        return clock_monotonic_ns();
    return p->taken ? batch_get(p->batch, p->taken - 1)->time_ns : 0;
}

/* Records of one time belong together: those of a request and of its event stream. */
static bool may_end_at(const struct pipeline *p, size_t i)
{
    return batch_get(p->batch, i)->time_ns != batch_get(p->batch, i - 1)->time_ns;
}

/* Takes records as long as the turn has time, at least one if there is one; returns their number. */
static size_t take_records(struct pipeline *p)
{
    const size_t first = p->taken, count = batch_count(p->batch);
    for (size_t i = first; i < count; i++) {
        const struct record_header *record = batch_get(p->batch, i);
        if (i > first && may_end_at(p, i) && turn_time_is_half_over())
            break;
        p->taken = i + 1;
        if (!watched_processes_want(p->watched, record))
            continue;
        take_record(p, record);
        if (record->kind == RECORD_PROCESS_EXEC)
            process_events_apply_early_mapping(p, i);
    }
    p->unfinished_turns += p->taken < count;
    return p->taken - first;
}

static void end_turn_of_signals(struct pipeline *p)
{
    const struct mapped_processes mapped = {p->mapped, p->mapped_count, p->mapped_is_incomplete};
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].self && p->opened[i].signal->turn)
            p->opened[i].signal->turn(p->opened[i].self, &mapped);
}

int pipeline_turn(struct pipeline *p)
{
    if (p->taken == batch_count(p->batch)) {
        p->taken = 0;
        int r = drain_sources(p);
        if (r < 0)
            return r;
    }
    processes_begin_turn(p->processes);
    if (p->pod_watch)
        pod_watch_turn(p->pod_watch, p->processes);
    jits_begin_turn(p->jits);
    const size_t count = take_records(p);
    process_events_end_turn(p);
    end_turn_of_signals(p);
    p->mapped_count = p->mapped_is_incomplete = 0;
    if (p->publisher)
        unwind_publisher_run(p->publisher);
    reemit_missing_code(p);
    process_events_forget_exited(p, time_reached_ns(p));
    return (int)count;
}

/* Records that provide nothing alone, as those of processes, are not counted. */
static uint64_t count_rest_of_batch(const struct pipeline *p)
{
    uint64_t count = 0;
    for (size_t i = p->taken; i < batch_count(p->batch); i++) {
        size_t owner;
        const struct record_type *type = signals_record_type(batch_get(p->batch, i)->kind, &owner);
        count += type && !(all_signals[owner]->flags & SIGNAL_ALWAYS);
    }
    return count;
}

uint64_t pipeline_drop_rest(struct pipeline *p)
{
    uint64_t count = 0;
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].self && p->opened[i].signal->pending)
            count += p->opened[i].signal->pending(p->opened[i].self);
    for (int i = 0; i < REST_DRAINS_MAX && p->taken < batch_count(p->batch); i++) {
        count += count_rest_of_batch(p);
        p->taken = 0;
        if (drain_sources(p) < 0)
            break;
    }
    p->losses.count[LOSS_NOT_RESOLVED] += count;
    return count;
}

/* ---- lifecycle ---- */

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

/* Creates what turns records into samples: the batch, the resolvers and the files of source lines. */
static int make_sample_stages(struct pipeline *p, const struct pipeline_options *options)
{
    int r = batch_new(BATCH_BYTES, signals_check_record, &p->batch);
    if (r == 0)
        r = pipeline_make_resolvers(p, options->cache_entries);
    if (r == 0 && options->lines)
        r = line_objects_new(&p->line_objects);
    if (r == 0 && options->lines)
        sample_resolver_note_files(p->resolver, p->line_objects);
    return r;
}

/* Long after the stack was recorded. Its missing frames are not counted: it is evidence, and no sample. */
static int resolve_wait(void *pipeline, const struct stack_record *record, struct sample *ret)
{
    const struct pipeline *p = pipeline;
    struct losses not_counted = {0};
    if (sample_resolve(p->resolver, record, &not_counted, ret) == -EBADMSG)
        return -EBADMSG;
    return !p->native_lines || own_lines_add(p->native_lines, sample_frames(p->resolver), ret->frame_count) ? 0
                                                                                                            : -EAGAIN;
}

static struct signal_services services_of(struct pipeline *p, const struct pipeline_options *options)
{
    return (struct signal_services){
        .filter = &p->filter,
        .processes = p->processes,
        .resolver = p->resolver,
        .interpreters = p->interpreters,
        .losses = &p->losses,
        .event_type = &p->event_type,
        .agent_cpus = options->config ? options->config->budget_one_cpu_share : 0,
        .recorder = p->tables ? shared_tables_recorder(p->tables) : NULL,
        .recent_samples = p->recent_samples,
        .recent_waits = p->recent_waits,
        .cuda_activity = &p->cuda_activity,
        .threads = p->threads,
        .span_seed = options->span_seed,
        .pipeline = p,
        .emit_sample = emit_sample,
        .emit_request = p->sink.request ? emit_request : NULL,
        .emit_event = emit_event,
        .emit_opaque = p->sink.opaque ? emit_opaque : NULL,
        .emit_calls = p->sink.calls ? emit_calls : NULL,
        .note_stack = note_stack,
        .note_process_event = note_process_event,
        .note_sample_event = note_sample_event,
    };
}

static int make_signals(struct pipeline *p, const struct pipeline_options *options)
{
    p->services = services_of(p, options);
    for (size_t i = 0; i < p->opened_count; i++) {
        struct opened_signal *o = &p->opened[i];
        p->services.memory_bytes = p->memory.bytes[o->signal->memory.kept];
        int r = o->signal->create
                    ? o->signal->create(&p->services, config_signal(options->config, o->signal), o->source, &o->self)
                    : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

/* What fills the shared tables with facts about processes, where programs unwind stacks. */
static int make_publishers(struct pipeline *p, const struct pipeline_options *options)
{
    struct unwind_tables *unwind = p->tables ? shared_tables_unwind(p->tables) : NULL;
    struct context_tables contexts;
    int r = unwind
                ? unwind_publisher_new(unwind, p->unwind_cache, p->interpreters, options->unwind_share, &p->publisher)
                : 0;
    if (r == 0 && p->tables && shared_tables_contexts(p->tables, &contexts))
        r = thread_contexts_new(&contexts, &p->contexts);
    return r;
}

static int make_watched_processes(struct pipeline *p, const struct config *config)
{
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].signal->is_node_wide &&
            p->opened[i].signal->is_node_wide(config_signal(config, p->opened[i].signal)))
            return 0;
    return p->tables ? watched_processes_new(&p->filter, shared_tables_followed_fd(p->tables), &p->watched) : 0;
}

/* Starts a thread: called after all forks. */
static int start_pod_watch(struct pipeline *p, const struct pipeline_options *options)
{
    if (!options->cri_socket || options->replay)
        return 0;
    return pod_watch_new(options->cri_socket, options->pod_labels, p->processes, &p->pod_watch);
}

/* --record-events: the recording begins with the event that is sampled, if any. */
static int open_event_recording(struct pipeline *p, const struct pipeline_options *options)
{
    if (!options->record_events)
        return 0;
    int r = record_writer_open(options->record_events, &p->record_events);
    if (r == 0 && options->event)
        r = write_event(p->record_events, options->event, p->batch);
    return r < 0 ? log_errno(r, "%s cannot be written", options->record_events) : 0;
}

int pipeline_new(const struct pipeline_options *options, const struct pipeline_sink *sink, struct attach_report *report,
                 struct pipeline **ret)
{
    _cleanup_(pipeline_freep) struct pipeline *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->sink = *sink;
    p->filter = options->filter;
    p->sample_hz = options->sample_hz;
    if (options->rules)
        p->loaded_rules = *options->rules;
    if (options->memory)
        p->memory = *options->memory;
    else
        memory_plan_make(options->config, options->memory_bytes, sysconf(_SC_NPROCESSORS_CONF), false, &p->memory);
    if (options->event)
        set_event_type(p, options->event);
    int r = make_sample_stages(p, options);
    if (r == 0 && p->sink.request)
        r = recent_samples_new(&p->recent_samples) ?: recent_waits_new(resolve_wait, p, &p->recent_waits);
    if (r == 0 && config_enables_any(options->config, SIGNAL_THREADS))
        r = process_threads_new(&p->threads);
    if (r == 0)
        r = options->replay ? pipeline_open_replay(p, options->replay) : pipeline_open_kernel(p, options, report);
    if (r == 0)
        r = make_publishers(p, options);
    if (r == 0)
        r = make_signals(p, options);
    if (r == 0)
        r = make_watched_processes(p, options->config);
    if (r == 0)
        r = start_pod_watch(p, options);
    if (r == 0)
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
    unwind_publisher_free(p->publisher); /* before the tables that it fills */
    thread_contexts_free(p->contexts);   /* likewise */
    pod_watch_free(p->pod_watch);
    watched_processes_free(p->watched);
    for (size_t i = 0; i < p->opened_count; i++) {
        if (p->opened[i].self && p->opened[i].signal->destroy)
            p->opened[i].signal->destroy(p->opened[i].self);
        if (p->opened[i].source)
            p->opened[i].signal->source->free(p->opened[i].source);
    }
    recent_samples_free(p->recent_samples);
    process_threads_free(p->threads);
    recent_waits_free(p->recent_waits);
    shared_tables_free(p->tables);
    sample_resolver_free(p->resolver);
    jits_free(p->jits);
    interpreters_free(p->interpreters);
    unwind_cache_free(p->unwind_cache);
    kernel_symbols_free(p->kernel);
    kernel_names_free(p->kernel_names);
    symbols_free(p->symbols);
    native_lines_free(p->native_lines); /* it refers to objects */
    line_objects_free(p->line_objects);
    processes_free(p->processes);
    record_writer_free(p->record_events);
    record_reader_free(p->replay);
    free(p->replayed_event);
    batch_free(p->batch);
    free(p);
}

static void start_signals(struct pipeline *p)
{
    watched_processes_start(p->watched, p->processes);
    for (size_t i = 0; i < p->opened_count; i++)
        if (p->opened[i].self && p->opened[i].signal->start)
            p->opened[i].signal->start(p->opened[i].self);
}

int pipeline_start(struct pipeline *p)
{
    uint64_t start_ns = clock_monotonic_ns();
    bool is_first = true;
    /* The last source, of process lifecycle events, first: they must be recorded before the first sample that needs
     * them. */
    for (size_t i = p->opened_count; i-- > 0;) {
        const struct opened_signal *o = &p->opened[i];
        int r = o->source ? o->signal->source->start(o->source) : 0;
        if (r < 0)
            return log_errno(r, "source %s cannot start", o->signal->source->name);
        if (is_first)
            start_signals(p);
        is_first = false;
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
        const struct source *source = p->opened[i].signal->source;
        int r = p->opened[i].source && source->stop ? source->stop(p->opened[i].source) : 0;
        if (r < 0)
            log_errno(r, "source %s cannot be flushed: its in-flight records are lost", source->name);
    }
}

size_t pipeline_poll_fds(struct pipeline *p, int *ret_fds, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < p->opened_count; i++) {
        const struct opened_signal *o = &p->opened[i];
        if (o->source && o->signal->source->poll_fds)
            count += o->signal->source->poll_fds(o->source, ret_fds + count, max - count);
    }
    return count;
}
