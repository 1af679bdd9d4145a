/* Signal "request": HTTP requests served, each with its latency breakdown. */
#include "diagnose/request.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "diagnose/stream.h"
#include "resolve/process/process_go.h"
#include "resolve/process/processes.h"
#include "signals/recent_waits.h"
#include "signals/request/first_tokens.h"
#include "signals/request/generation_metrics.h"
#include "signals/request/request_callers.h"
#include "signals/request/request_calls.h"
#include "signals/request/request_metrics.h"
#include "signals/request/request_names.h"
#include "signals/request/request_opaque.h"
#include "signals/request/request_paths.h"
#include "signals/request/request_tls.h"
#include "signals/signal.h"
#include "sources/request/request.h"
#include "sources/sampling/cgroup_names.h"

#include "probes/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PENDING_MAX 256 /* requests of a turn; more are diagnosed before it ends */

struct request_signal {
    const struct signal_services *services;
    struct request_paths *paths;
    struct request_metrics *metrics; /* NULL: a replay */
    struct generation_metrics *generations;
    struct request_opaque_counts *opaque; /* likewise, or they are not wanted */
    struct request_calls *calls;          /* likewise */
    struct request_tls *tls;              /* likewise, or the plaintext of TLS is not read */
    void *source;                         /* NULL: a replay */
    struct served_ports served;
    struct cgroup_names cgroups;
    struct request_callers callers;
    struct first_tokens first_tokens;
    /* Records of the batch, valid until the turn ends. */
    const struct request_stream_record *streams[PENDING_MAX]; /* the latest with this remainder of its ID */
    struct request_path pending[PENDING_MAX];
    size_t pending_count;
    const struct request_stream_record *ended[PENDING_MAX]; /* counted when the turn ends: behind their requests */
    size_t ended_count;
};

static void destroy_request(void *self)
{
    struct request_signal *q = self;
    request_metrics_free(q->metrics);
    generation_metrics_free(q->generations);
    request_opaque_counts_free(q->opaque);
    request_calls_free(q->calls);
    request_tls_free(q->tls);
    request_paths_free(q->paths);
    cgroup_names_clear(&q->cgroups);
    free(q);
}

static int create_request(const struct signal_services *services, const void *settings, void *source, void **ret_self)
{
    struct request_signal *q = calloc(1, sizeof(*q));
    (void)settings;
    if (!q)
        return -ENOMEM;
    q->services = services;
    q->source = source;
    int r = request_paths_new(services->recorder, services->agent_cpus, &q->paths);
    if (r == 0 && source)
        r = request_metrics_new(source, services->processes, &q->metrics);
    if (r == 0)
        r = generation_metrics_new(&q->generations);
    if (r == 0 && source && services->emit_opaque)
        r = request_opaque_counts_new(services, source, &q->opaque);
    if (r == 0 && source && services->emit_calls)
        r = request_calls_new(services, source, &q->served, &q->calls);
    if (r == 0 && source && request_source_tls(source))
        r = request_tls_new(source, services->processes, services->agent_cpus, &q->tls);
    if (r < 0)
        destroy_request(q);
    else
        *ret_self = q;
    return r;
}

static bool check_request(const struct record_header *header)
{
    const struct request_record *r = (const struct request_record *)header;

    return request_record_is_sound(r) && memchr(r->comm, 0, sizeof(r->comm));
}

static bool check_caller(const struct record_header *header)
{
    const struct request_caller_record *c = (const struct request_caller_record *)header;

    return header->size_bytes == sizeof(*c) && c->id && memchr(c->traceparent, 0, sizeof(c->traceparent));
}

static bool check_stream(const struct record_header *header)
{
    const struct request_stream_record *r = (const struct request_stream_record *)header;

    return request_stream_record_is_sound(r) && memchr(r->comm, 0, sizeof(r->comm));
}

static const struct request_stream_record *find_stream(const struct request_signal *q, uint64_t id)
{
    const struct request_stream_record *stream = q->streams[id % PENDING_MAX];
    return stream && stream->id == id ? stream : NULL;
}

static bool is_go_program(const struct request_signal *q, const struct request_record *record)
{
    const struct process *process = processes_find(q->services->processes, record->h.pid, record->cgroup_id);
    return process && process_go_file(process);
}

/* The processes of the request and of its path: waits of their threads are recorded from now on. What the kernel lacks
 * to unwind their stacks is published ahead of them. */
static void want_waits(const struct request_signal *q, const struct request_record *record,
                       const struct path_segments *path)
{
    const struct signal_services *s = q->services;
    const uint64_t now_ns = clock_monotonic_ns();
    uint32_t last = record->h.pid;
    recent_waits_want(s->recent_waits, last, now_ns);
    for (size_t i = 0; i < path->count; i++) {
        const uint32_t pid = path->items[i].pid;
        if (pid != last && recent_waits_want(s->recent_waits, pid, now_ns))
            s->note_stack(s->pipeline, pid, 0, record->h.time_ns);
        last = pid;
    }
}

static void make_span(const struct request_signal *q, struct request *request)
{
    request->span = request_span_make(&q->services->span_seed, request->id,
                                      request_callers_find(&q->callers, request->id), &request->link);
}

/* Diagnoses the pending requests once the whole turn has been read, when everything about them is known: the requests
 * of a turn share the cost of their paths. The texts of the paths are made within the same budget. */
static void diagnose_pending(struct request_signal *q)
{
    struct losses *losses = q->services->losses;
    struct request_namer namer = {.recorder = q->services->recorder,
                                  .recent_samples = q->services->recent_samples,
                                  .recent_waits = q->services->recent_waits,
                                  .processes = q->services->processes,
                                  .source = q->source,
                                  .served = &q->served,
                                  .cgroups = q->source ? &q->cgroups : NULL};
    const struct request_names names = request_names_by(&namer);
    request_paths_find(q->paths, q->pending, q->pending_count);
    for (size_t i = 0; i < q->pending_count; i++) {
        struct request_path *pending = &q->pending[i];
        const uint64_t since_ns = pending->segments.count ? clock_thread_cpu_ns() : 0;
        struct request *request;
        if (q->services->recent_waits)
            want_waits(q, pending->record, &pending->segments);
        int r = diagnose_request(pending->record, &pending->segments, pending->no_path, &names, &request);
        if (r == 0 && pending->stream)
            (void)diagnose_stream(pending->stream, &pending->segments, &request); /* on failure: without its tokens */
        if (r == 0)
            first_tokens_keep(&q->first_tokens, request);
        if (r == 0)
            make_span(q, request);
        if (r == 0 && q->metrics)
            request_metrics_record(q->metrics, request);
        if (r == 0)
            q->services->emit_request(q->services->pipeline, request);
        else
            losses->count[r == -EBADMSG ? LOSS_DECODE : LOSS_REQUEST_NOT_DETAILED]++;
        if (since_ns)
            request_paths_spend(q->paths, clock_thread_cpu_ns() - since_ns);
        path_segments_clear(&pending->segments);
    }
    q->pending_count = 0;
}

static const char *service_of(const struct request_signal *q, const struct request_stream_record *record)
{
    struct processes *processes = q->services->processes;
    const struct process *process = processes ? processes_find(processes, record->h.pid, record->cgroup_id) : NULL;
    const char *name = process ? processes_resource(processes, process)->service_name : "";
    return name[0] ? name : record->comm;
}

static void count_ended_streams(struct request_signal *q)
{
    for (size_t i = 0; i < q->ended_count; i++)
        generation_metrics_record(q->generations, service_of(q, q->ended[i]), q->ended[i]);
    q->ended_count = 0;
}

/* Whether a record of this turn is of the process. */
static bool has_record_of(const struct request_signal *q, uint32_t pid)
{
    for (size_t i = 0; i < q->pending_count; i++)
        if (q->pending[i].record->h.pid == pid)
            return true;
    for (size_t i = 0; i < q->ended_count; i++)
        if (q->ended[i]->h.pid == pid)
            return true;
    return false;
}

static void diagnose_before_exec(void *self, uint32_t pid)
{
    struct request_signal *q = self;
    if (!has_record_of(q, pid))
        return;
    diagnose_pending(q);
    count_ended_streams(q);
}

static void take_request(void *self, const struct record_header *header)
{
    struct request_signal *q = self;
    const struct request_record *record = (const struct request_record *)header;
    if (!q->services->emit_request)
        return;
    q->services->note_stack(q->services->pipeline, record->h.pid, record->cgroup_id, record->h.time_ns);
    served_ports_note(&q->served, record->h.pid, record->local_port);
    q->pending[q->pending_count++] = (struct request_path){
        .record = record, .stream = find_stream(q, record->id), .schedules_itself = is_go_program(q, record)};
    if (q->pending_count == PENDING_MAX)
        diagnose_pending(q);
}

static void take_caller(void *self, const struct record_header *header)
{
    struct request_signal *q = self;
    const struct request_caller_record *record = (const struct request_caller_record *)header;
    struct traceparent caller;
    if (traceparent_parse(record->traceparent, strlen(record->traceparent), &caller))
        request_callers_add(&q->callers, record->id, &caller);
}

/* Comes ahead of the request's own record. */
static void take_stream(void *self, const struct record_header *header)
{
    struct request_signal *q = self;
    const struct request_stream_record *record = (const struct request_stream_record *)header;
    q->streams[record->id % PENDING_MAX] = record;
    if (!(record->flags & REQUEST_STREAM_ENDED))
        return;
    q->ended[q->ended_count++] = record;
    if (q->ended_count == PENDING_MAX)
        count_ended_streams(q);
}

static void end_turn(void *self, const struct mapped_processes *mapped)
{
    struct request_signal *q = self;
    diagnose_pending(q);
    count_ended_streams(q);
    memset(q->streams, 0, sizeof(q->streams));
    if (q->tls)
        request_tls_turn(q->tls, mapped);
    if (q->metrics)
        request_metrics_sweep(q->metrics, clock_monotonic_ns());
    if (q->opaque)
        request_opaque_counts_sweep(q->opaque, clock_monotonic_ns());
    if (q->calls)
        request_calls_sweep(q->calls, clock_monotonic_ns());
}

static void start_request(void *self)
{
    struct request_signal *q = self;
    if (q->tls)
        request_tls_start(q->tls);
}

static void forget_process(void *self, uint32_t pid, uint32_t tid)
{
    struct request_signal *q = self;
    if (q->tls && tid == 0)
        request_tls_forget(q->tls, pid);
}

static void put_metrics(void *self, struct metric_set *set)
{
    const struct request_signal *q = self;
    if (q->tls)
        request_tls_metrics(q->tls, set);
    if (q->metrics)
        request_metrics_write(q->metrics, clock_monotonic_ns(), set);
    generation_metrics_write(q->generations, set);
    request_paths_metrics(q->paths, set);
}

static const struct source_level levels[] = {
    {SOURCE_DETAIL_FULL, "the causes of slow requests, as far as two fifths of budget.one_cpu suffice"},
    {SOURCE_DETAIL_SLOWEST_PATHS, "the causes of the slowest requests of each route only"},
    {SOURCE_DETAIL_LEAST, "no causes of slow requests"},
    {0},
};

static void shed_paths(void *self, enum source_detail detail)
{
    request_paths_shed(((struct request_signal *)self)->paths, detail);
}

static const struct record_type records[] = {
    {RECORD_REQUEST, check_request, take_request},
    {RECORD_REQUEST_CALLER, check_caller, take_caller},
    {RECORD_REQUEST_STREAM, check_stream, take_stream},
    {0},
};

static const struct setting settings[] = {
    SIGNAL_ENABLED("requests.enabled", "watch HTTP requests at the sockets"),
    {"requests.tls", SETTING_BOOL, offsetof(struct request_options, tls), sizeof(bool), 0, 0, "true or false",
     "read requests over TLS from OpenSSL, Go and grpcio, in the programs that use it"},
    {0},
};

const struct signal signal_request = {
    .name = "request",
    .memory = {.fixed_bytes = 10548u << 10},
    .source = &source_request,
    .records = records,
    .settings_bytes = sizeof(struct request_options),
    .defaults = &(const struct request_options){.enabled = true, .tls = true},
    .settings = settings,
    .is_node_wide = signal_is_node_wide, /* its filter does not follow children as the others do */
    .create = create_request,
    .destroy = destroy_request,
    .start = start_request,
    .before_exec = diagnose_before_exec,
    .exited = forget_process,
    .turn = end_turn,
    .metrics = put_metrics,
    .levels = levels,
    .shed = shed_paths,
};
