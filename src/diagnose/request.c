/* The latency breakdown of one request; see request.h. The segments of its critical path are exclusive and cover it, so
 * the components add up to its duration by construction. */
#include "diagnose/request.h"

#include "base/clock.h"
#include "base/peer.h"
#include "diagnose/path/path_asked.h"
#include "diagnose/path/path_text.h"
#include "diagnose/request_sentence.h"
#include "diagnose/route.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct diagnosis {
    const struct request_record *record;
    const struct path_segments *segments; /* NULL: its path is not known */
    struct request request;
    struct route route;
    struct path_text *path;
    char peer[64];
    char comm[17];
    char upstream[PATH_PEER_BYTES + PATH_PROCESS_BYTES], upstream_call[PATH_ASKED_BYTES];
    char cause[REQUEST_SENTENCE_BYTES];
    char unread[128];
};

static void diagnosis_freep(struct diagnosis **d)
{
    if (*d)
        path_text_free((*d)->path);
    free(*d);
}

/* All that is known is when it was read. The longest component comes first, as with a path. */
static void add_parts_without_path(struct diagnosis *d, enum request_no_path no_path)
{
    static const char *const reasons[REQUEST_NO_REASONS] = {
        [REQUEST_NO_RECORDER] = "the flight recorder was not running",
        [REQUEST_NO_RECORDS] = "the flight recorder has no records of it",
        [REQUEST_NO_BUDGET] = "its path was not computed, to keep to budget.one_cpu",
    };
    struct request *r = &d->request;
    r->is_over_budget = no_path == REQUEST_NO_BUDGET;
    const uint64_t unread_ns = d->record->unread_ns < r->duration_ns ? d->record->unread_ns : r->duration_ns,
                   rest_ns = r->duration_ns - unread_ns;
    const struct request_part unread = {
        .kind = REQUEST_PART_UNREAD, .duration_ns = unread_ns, .detail = d->unread, .stack = ""};
    snprintf(d->unread, sizeof(d->unread), "the server's work meanwhile is not known: %s", reasons[no_path]);
    if (unread_ns && unread_ns >= rest_ns)
        r->parts[r->part_count++] = unread;
    if (rest_ns)
        r->parts[r->part_count++] = (struct request_part){
            .kind = REQUEST_PART_UNATTRIBUTED, .duration_ns = rest_ns, .detail = reasons[no_path], .stack = ""};
    if (unread_ns && unread_ns < rest_ns)
        r->parts[r->part_count++] = unread;
}

static int add_path(struct diagnosis *d, const struct request_names *names)
{
    struct request *r = &d->request;
    const int error = path_text_new(d->segments, r->pid, r->tid, &names->path, &d->path);
    if (error < 0)
        return error;
    r->segments = path_text_segments(d->path, &r->segment_count);
    return path_text_parts(d->path, REQUEST_PARTS_MAX, r->parts, &r->part_count);
}

/* What a segment waited for outside of the process that serves the request: an answer on a socket, or another process
 * of this node, into which its path was followed. 0: nothing. */
static uint64_t outside_of(const struct request *r, const struct path_segment *s)
{
    if (s->call && s->pid && s->pid != r->pid)
        return s->call << 1;
    if (s->kind == REQUEST_PART_DOWNSTREAM)
        return s->socket ? s->socket << 1 : 1;
    return s->pid && s->pid != r->pid && s->owner == REQUEST_OWNER_THIS ? (uint64_t)s->pid << 1 | 1 : 0;
}

/* The time of all segments that waited for the same. */
struct outside {
    uint64_t key; /* outside_of */
    uint64_t ns;
    const struct path_segment *first;
    const struct path_segment *longest;
    const struct path_segment *worker; /* the last one in another process of this node: it answered; NULL: none */
};

static uint64_t length_of(const struct path_segment *s)
{
    return s->end_ns - s->start_ns;
}

static int compare_outsides(const void *a, const void *b)
{
    const struct outside *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->first < y->first ? -1 : x->first > y->first;
}

/* Adds up the entries of each key, which are sorted, and returns the key's entry with the most time, the first one of
 * several; NULL if there is no entry. */
static const struct outside *find_longest(struct outside *sorted, size_t count)
{
    const struct outside *longest = NULL;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && sorted[end].key == sorted[i].key; end++) {
            sorted[i].ns += sorted[end].ns;
            sorted[i].worker = sorted[end].worker ?: sorted[i].worker;
            if (length_of(sorted[end].longest) > length_of(sorted[i].longest))
                sorted[i].longest = sorted[end].longest;
        }
        if (!longest || sorted[i].ns > longest->ns || (sorted[i].ns == longest->ns && sorted[i].first < longest->first))
            longest = &sorted[i];
    }
    return longest;
}

static const struct resource *resource_of(const struct request_names *names, uint32_t pid, uint64_t cgroup_id)
{
    return names->resource ? names->resource(names->context, pid, cgroup_id) : NULL;
}

/* "10.0.0.7:5432"; of a process on this node with its name, "127.0.0.1:8199 (python)", or only that. */
static void name_outside(struct diagnosis *d, const struct outside *o, const struct request_names *names)
{
    const uint64_t socket = o->key & 1 ? 0 : o->key >> 1;
    const struct resource *resource = o->worker ? resource_of(names, o->worker->pid, d->record->cgroup_id) : NULL;
    char address[PATH_PEER_BYTES] = "";
    if (socket && names->path.peer)
        names->path.peer(names->path.context, socket, address);
    const char *name = resource ? resource->service_name : "";
    const bool has_both = address[0] && name[0];
    snprintf(d->upstream, sizeof(d->upstream), "%s%s%.*s%s", address, has_both ? " (" : "", PATH_PROCESS_BYTES - 4,
             name, has_both ? ")" : "");
}

/* The service that the request waited for longest, and how long it waited for others in all. */
static int set_upstream(struct diagnosis *d, const struct request_names *names)
{
    struct request *r = &d->request;
    const size_t segments = d->segments ? d->segments->count : 0;
    _cleanup_free_ struct outside *all = calloc(segments + 1, sizeof(*all));
    size_t count = 0;
    if (!all)
        return -ENOMEM;
    for (size_t i = 0; i < segments; i++) {
        const struct path_segment *s = &d->segments->items[i];
        const struct outside one = {outside_of(r, s), length_of(s), s, s, s->pid != r->pid && s->pid ? s : NULL};
        r->upstream_ns += one.key ? one.ns : 0;
        if (one.key)
            all[count++] = one;
    }
    qsort(all, count, sizeof(*all), compare_outsides);
    const struct outside *longest = find_longest(all, count);
    if (longest) {
        name_outside(d, longest, names);
        path_asked_text(longest->longest, &names->path, d->upstream_call);
        r->upstream_longest_ns = longest->ns;
    }
    r->upstream = d->upstream;
    r->upstream_call = d->upstream_call;
    return 0;
}

static void set_service(struct diagnosis *d, const struct request_names *names)
{
    struct request *r = &d->request;
    const struct resource *resource = resource_of(names, d->record->h.pid, d->record->cgroup_id);
    snprintf(d->comm, sizeof(d->comm), "%.16s", d->record->comm);
    r->service = resource && resource->service_name[0] ? resource->service_name : d->comm;
    r->container_id = resource ? resource->container_id : "";
    r->unit = resource ? resource->systemd_unit : "";
}

_Static_assert((int)REQUEST_GRPC == REQUEST_PROTOCOL_GRPC && (int)REQUEST_HTTP2 == REQUEST_PROTOCOL_HTTP2 &&
                   REQUEST_GRPC_STATUS == REQUEST_STATUS_GRPC && REQUEST_GRPC_UNKNOWN == REQUEST_STATUS_GRPC_UNKNOWN,
               "the record's numbers are the model's");

bool diagnose_route(const struct request_record *record, struct route *ret)
{
    if (record->protocol != REQUEST_HTTP1)
        return route_parse_http2(record->line, record->line_bytes, record->protocol == REQUEST_GRPC, ret);
    *ret = (struct route){0};
    if (!(record->flags & REQUEST_PIPELINED) || record->line_bytes)
        return route_parse(record->line, record->line_bytes, record->status != 0, ret);
    snprintf(ret->path, sizeof(ret->path), "{pipelined}");
    return true;
}

int diagnose_request(const struct request_record *record, const struct path_segments *path,
                     enum request_no_path no_path, const struct request_names *names, struct request **ret)
{
    if (!request_record_is_sound(record))
        return -EBADMSG;
    _cleanup_(diagnosis_freep) struct diagnosis *d = calloc(1, sizeof(*d));
    if (!d)
        return -ENOMEM;
    int r;
    d->record = record;
    d->segments = path && path->count ? path : NULL;
    if (!diagnose_route(record, &d->route))
        return -EBADMSG;
    d->request = (struct request){
        .id = record->id,
        .start_ns = record->start_ns,
        .duration_ns = record->duration_ns,
        .pid = record->h.pid,
        .tid = record->h.tid,
        .port = record->local_port,
        .method = d->route.method,
        .route = d->route.path,
        .status = record->status,
        .protocol = record->protocol,
        .bytes_in = record->bytes_in,
        .bytes_out = record->bytes_out,
        .link = {record->link.trace_id_high, record->link.trace_id_low, record->link.span_id},
        .peer = peer_text(record->peer_family, record->peer_address, record->peer_port, d->peer, sizeof(d->peer)),
        .upstream = "",
        .weight = record->weight,
        .is_tls = record->flags & REQUEST_TLS,
        .lacks_path = record->flags & REQUEST_NO_PATH,
        .is_notable = record->flags & REQUEST_NOTABLE || !record->weight,
    };
    d->request.start_unix_ns = clock_unix_from_monotonic(d->request.start_ns);
    if (!d->segments)
        add_parts_without_path(d, no_path);
    else if ((r = add_path(d, names)) < 0)
        return r;
    r = set_upstream(d, names);
    if (r < 0)
        return r;
    d->request.cause = request_sentence(&d->request, d->cause);
    set_service(d, names);
    return request_copy(&d->request, ret);
}
