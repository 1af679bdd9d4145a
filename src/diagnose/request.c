/* The latency breakdown of one request; see request.h. The BPF programs record sums that never overlap; the remainder
 * of the duration is CPU time, so the components add up to it by construction. */
#include "diagnose/request.h"

#include "base/buf.h"
#include "base/clock.h"
#include "diagnose/request_sentence.h"
#include "diagnose/route.h"
#include "diagnose/stack_text.h"
#include "diagnose/waits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

/* One tick of the slowest clock (100 Hz): the maximum lag of the scheduler's accounting. */
#define RUNTIME_SLACK_NS 10000000

struct diagnosis {
    const struct request_record *record;
    struct request request;
    struct route route;
    struct path_text *path; /* NULL: none */
    uint64_t left_ns;       /* of the duration, not yet assigned to a component */
    char details[REQUEST_WAITS][WAIT_DETAIL_MAX];
    struct buf stacks[REQUEST_WAITS];
    char peer[64];
    char comm[17];
    char upstream[64];
    char cause[REQUEST_SENTENCE_BYTES];
};

static void diagnosis_freep(struct diagnosis **d)
{
    for (size_t i = 0; *d && i < REQUEST_WAITS; i++)
        buf_clear(&(*d)->stacks[i]);
    if (*d)
        path_text_free((*d)->path);
    free(*d);
}

/* Sums exceed the duration only in a corrupt record; the excess is cut. */
static void add_part_with_stack(struct diagnosis *d, enum request_part_kind kind, uint64_t ns, const char *detail,
                                const char *stack)
{
    struct request *r = &d->request;
    if (ns > d->left_ns)
        ns = d->left_ns;
    if (ns == 0)
        return;
    d->left_ns -= ns;
    for (size_t i = 0; i < r->part_count; i++)
        if (r->parts[i].kind == kind && strcmp(r->parts[i].detail, detail) == 0) {
            r->parts[i].duration_ns += ns;
            return;
        }
    r->parts[r->part_count++] =
        (struct request_part){.kind = kind, .duration_ns = ns, .detail = detail, .stack = stack ? stack : ""};
}

static void add_part(struct diagnosis *d, enum request_part_kind kind, uint64_t ns, const char *detail)
{
    add_part_with_stack(d, kind, ns, detail, NULL);
}

/* A slot of the stack store may be reused while the record is being written; the hash detects that. */
static bool stack_matches_hash(const struct request_wait *w, const __u64 *addresses)
{
    __u64 name = REQUEST_STACK_NAME_START(w->user_end);
    for (size_t i = 0; i < w->user_frames; i++)
        name = REQUEST_STACK_NAME_STEP(name, addresses[i]);
    return REQUEST_STACK_NAME_END(name) == w->stack;
}

static void name_frames(const struct request_record *record, const struct request_wait *w, const __u64 *addresses,
                        const struct request_names *names, struct wait_frames *ret)
{
    struct request_wait wait = *w;
    if (wait.user_end < REQUEST_STACK_APART && !stack_matches_hash(w, addresses)) {
        wait.user_end = REQUEST_STACK_LOST;
        wait.user_frames = 0;
    }
    if (names->kernel_frames)
        ret->kernel_count =
            names->kernel_frames(names->context, w->kernel, w->kernel_frames, ret->kernel, array_size(ret->kernel));
    if (names->user_frames)
        ret->user_count =
            names->user_frames(names->context, record, &wait, addresses, ret->user, array_size(ret->user));
}

static void add_waits(struct diagnosis *d, const struct request_names *names)
{
    const __u64 *addresses = ((const struct request_record_stacks *)d->record)->frames;
    for (size_t i = 0; i < d->record->wait_count; i++) {
        const struct request_wait *w = &d->record->waits[i];
        struct wait_frames frames = {.kernel_count = 0};
        if (w->duration_ns)
            name_frames(d->record, w, addresses, names, &frames);
        addresses += w->user_frames;
        stack_text_put(&d->stacks[i], frames.kernel, frames.kernel_count);
        stack_text_put(&d->stacks[i], frames.user, frames.user_count);
        add_part_with_stack(d, wait_kind(w, &frames), w->duration_ns,
                            wait_detail(w, &frames, d->details[i], sizeof(d->details[i])), d->stacks[i].data);
    }
}

/* The remainder is CPU time only as far as the scheduler accounted it to the thread: the hypervisor may have stolen
 * the CPU, and a missed context switch must not turn a wait into CPU time. */
static void subtract_unaccounted_time(struct diagnosis *d)
{
    const struct request_record *record = d->record;
    uint64_t lacking_ns = d->left_ns > record->runtime_ns ? d->left_ns - record->runtime_ns : 0;
    uint64_t stolen_ns = record->stolen_ns < lacking_ns ? record->stolen_ns : lacking_ns;
    add_part(d, REQUEST_PART_STEAL, stolen_ns, "");
    if (lacking_ns - stolen_ns > RUNTIME_SLACK_NS)
        add_part(d, REQUEST_PART_UNATTRIBUTED, lacking_ns - stolen_ns,
                 "not on a CPU by the scheduler's accounts: interrupts, or a switch that was not seen");
}

/* With a path, that shows what there was before the server read the request (add_path_parts). */
static void add_parts(struct diagnosis *d, const struct request_names *names)
{
    const struct request_record *record = d->record;
    const uint64_t unread_ns = record->unread_ns < record->duration_ns ? record->unread_ns : record->duration_ns;
    d->left_ns = record->duration_ns - (d->path ? unread_ns : 0);
    if (!d->path)
        add_part(d, REQUEST_PART_UNREAD, unread_ns, "");
    add_waits(d, names);
    uint64_t throttled_ns = record->throttled_ns < record->run_queue_ns ? record->throttled_ns : record->run_queue_ns;
    add_part(d, REQUEST_PART_RUN_QUEUE, throttled_ns, "its cgroup's CPU quota was used up");
    add_part(d, REQUEST_PART_RUN_QUEUE, record->run_queue_ns - throttled_ns, "");
    add_part(d, REQUEST_PART_OTHER_REQUESTS, record->other_requests_ns, "the same thread served others meanwhile");
    add_part(d, REQUEST_PART_OTHER, record->more_waits_ns, "further waits");
    add_part(d, REQUEST_PART_UNATTRIBUTED, record->unattributed_ns,
             record->flags & REQUEST_HANDED_OVER ? "in the hands of another thread" : "");
    if (record->flags & REQUEST_ACCOUNTED)
        subtract_unaccounted_time(d);
    add_part(d, REQUEST_PART_CPU, d->left_ns, "");
}

/* How much of the components is not known, others' work in general, or a wait for something else, such as a child. */
static uint64_t unexplained_ns(const struct request_part *parts, size_t count)
{
    uint64_t sum_ns = 0;
    for (size_t i = 0; i < count; i++)
        if (parts[i].kind == REQUEST_PART_UNATTRIBUTED || parts[i].kind == REQUEST_PART_OTHER_REQUESTS ||
            parts[i].kind == REQUEST_PART_OTHER)
            sum_ns += parts[i].duration_ns;
    return sum_ns;
}

/* Whether the waits of the thread that served the request explain it: it did little else, and gave it to no other. */
static bool is_explained_by_thread(const struct diagnosis *d)
{
    return !(d->record->flags & REQUEST_HANDED_OVER) &&
           unexplained_ns(d->request.parts, d->request.part_count) <= d->record->duration_ns / 50;
}

/* A thread that sleeps by waiting for a futex with a timeout (Java, Ruby, Python's waits with one) is not distinguished
 * from one that waits for a lock, until the path shows that a timer ended the wait. */
static void name_timed_waits(struct diagnosis *d, const struct path_segments *path)
{
    struct request *r = &d->request;
    uint64_t timed_ns = 0;
    for (size_t i = 0; i < path->count; i++)
        if (path->items[i].kind == REQUEST_PART_SLEEP && path->items[i].tid == r->tid &&
            path->items[i].syscall == SYS_futex)
            timed_ns += path->items[i].end_ns - path->items[i].start_ns;
    for (size_t i = 0; i < r->part_count; i++) {
        struct request_part *part = &r->parts[i];
        const uint64_t slack_ns = part->duration_ns / 50;
        if (part->kind != REQUEST_PART_LOCK || strncmp(part->detail, "futex", strlen("futex")) != 0 ||
            part->duration_ns > timed_ns + slack_ns)
            continue;
        part->kind = REQUEST_PART_SLEEP;
        timed_ns -= part->duration_ns < timed_ns ? part->duration_ns : timed_ns;
    }
}

/* Replaces the components by those of the path where these explain more, or adds what came before the server read the
 * request, as the path shows it. */
static int add_path_parts(struct diagnosis *d, const struct path_segments *path)
{
    struct request *r = &d->request;
    const uint64_t read_ns = r->start_ns + d->record->unread_ns, end_ns = r->start_ns + r->duration_ns;
    struct request_part whole[REQUEST_PARTS_MAX];
    size_t count = 0;
    int error;
    if (!is_explained_by_thread(d)) {
        error = path_text_parts(d->path, r->start_ns, end_ns, REQUEST_PARTS_MAX, whole, &count);
        if (error < 0)
            return error;
        if (unexplained_ns(whole, count) <= unexplained_ns(r->parts, r->part_count)) {
            memcpy(r->parts, whole, count * sizeof(whole[0]));
            r->part_count = count;
            return 0;
        }
    }
    name_timed_waits(d, path);
    error = path_text_parts(d->path, r->start_ns, read_ns, REQUEST_PARTS_MAX - r->part_count, &r->parts[r->part_count],
                            &count);
    r->part_count += count;
    return error;
}

static int add_path(struct diagnosis *d, const struct path_segments *path, const struct request_names *names)
{
    struct request *r = &d->request;
    int error = path_text_new(path, r->pid, r->tid, &names->path, &d->path);
    if (error < 0)
        return error;
    r->segments = path_text_segments(d->path, &r->segment_count);
    return 0;
}

/* Sorts by duration, longest first. */
static void sort_parts(struct request *r)
{
    for (size_t i = 1; i < r->part_count; i++) {
        struct request_part part = r->parts[i];
        size_t at = i;
        for (; at > 0 && r->parts[at - 1].duration_ns < part.duration_ns; at--)
            r->parts[at] = r->parts[at - 1];
        r->parts[at] = part;
    }
}

/* The service behind the longest wait for another one, as the request's thread saw it; with a path alone, how long it
 * was. */
static void set_upstream(struct diagnosis *d)
{
    struct request *r = &d->request;
    uint64_t longest_ns = 0;
    for (size_t i = 0; i < d->record->wait_count; i++) {
        const struct request_wait *w = &d->record->waits[i];
        if (w->object != REQUEST_OBJECT_SOCKET && w->object != REQUEST_OBJECT_UNIX)
            continue;
        r->upstream_ns += w->duration_ns;
        if (w->duration_ns > longest_ns) {
            longest_ns = w->duration_ns;
            r->upstream = w->object == REQUEST_OBJECT_UNIX ? "unix"
                                                           : wait_peer(w->peer_family, w->peer_address, w->peer_port,
                                                                       d->upstream, sizeof(d->upstream));
        }
    }
    if (r->upstream_ns > r->duration_ns || !r->upstream_ns)
        r->upstream_ns = request_kind_ns(r, REQUEST_PART_DOWNSTREAM);
}

static void set_service(struct diagnosis *d, const struct request_names *names)
{
    struct request *r = &d->request;
    const struct resource *resource =
        names->resource ? names->resource(names->context, d->record->h.pid, d->record->cgroup_id) : NULL;
    snprintf(d->comm, sizeof(d->comm), "%.16s", d->record->comm);
    r->service = resource && resource->service_name[0] ? resource->service_name : d->comm;
    r->container_id = resource ? resource->container_id : "";
}

int diagnose_request(const struct request_record *record, const struct path_segments *path,
                     const struct request_names *names, struct request **ret)
{
    if (!request_record_is_sound(record))
        return -EBADMSG;
    _cleanup_(diagnosis_freep) struct diagnosis *d = calloc(1, sizeof(*d));
    if (!d)
        return -ENOMEM;
    d->record = record;
    if (record->flags & REQUEST_PIPELINED && record->line_bytes == 0)
        snprintf(d->route.path, sizeof(d->route.path), "{pipelined}");
    else if (!route_parse(record->line, record->line_bytes, record->status != 0, &d->route))
        return -EBADMSG;
    d->request = (struct request){
        .id = record->id,
        .start_ns = record->start_ns,
        .duration_ns = record->duration_ns,
        .pid = record->h.pid,
        .tid = record->h.tid,
        .method = d->route.method,
        .route = d->route.path,
        .status = record->status,
        .bytes_in = record->bytes_in,
        .bytes_out = record->bytes_out,
        .link = {record->link.trace_id_high, record->link.trace_id_low, record->link.span_id},
        .peer = wait_peer(record->peer_family, record->peer_address, record->peer_port, d->peer, sizeof(d->peer)),
        .upstream = "",
        .weight = record->weight,
    };
    int r = path && path->count ? add_path(d, path, names) : 0;
    if (r < 0)
        return r;
    d->request.start_unix_ns = clock_unix_from_monotonic(d->request.start_ns);
    add_parts(d, names);
    if (d->path && (r = add_path_parts(d, path)) < 0)
        return r;
    sort_parts(&d->request);
    set_upstream(d);
    d->request.cause = request_sentence(&d->request, d->cause);
    set_service(d, names);
    return request_copy(&d->request, ret);
}
