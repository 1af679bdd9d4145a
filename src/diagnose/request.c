/* The latency breakdown of one request; see request.h. The segments of its critical path are exclusive and cover it, so
 * the components add up to its duration by construction. */
#include "diagnose/request.h"

#include "base/clock.h"
#include "diagnose/peer.h"
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
    char upstream[PATH_PEER_BYTES];
    char cause[REQUEST_SENTENCE_BYTES];
};

static void diagnosis_freep(struct diagnosis **d)
{
    if (*d)
        path_text_free((*d)->path);
    free(*d);
}

/* All that is known is when it was read. */
static void add_parts_without_path(struct diagnosis *d, enum request_no_path no_path)
{
    static const char *const reasons[REQUEST_NO_REASONS] = {
        [REQUEST_NO_RECORDER] = "the flight recorder was not running",
        [REQUEST_NO_RECORDS] = "the flight recorder has no records of it",
        [REQUEST_NO_BUDGET] = "its path was not looked for, to stay within the CPU budget",
    };
    struct request *r = &d->request;
    const uint64_t unread_ns = d->record->unread_ns < r->duration_ns ? d->record->unread_ns : r->duration_ns;
    if (unread_ns)
        r->parts[r->part_count++] =
            (struct request_part){.kind = REQUEST_PART_UNREAD, .duration_ns = unread_ns, .detail = "", .stack = ""};
    if (unread_ns < r->duration_ns)
        r->parts[r->part_count++] = (struct request_part){.kind = REQUEST_PART_UNATTRIBUTED,
                                                          .duration_ns = r->duration_ns - unread_ns,
                                                          .detail = reasons[no_path],
                                                          .stack = ""};
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

/* What a segment waited for outside of the process that serves the request: a socket, or another process of this node,
 * into which its path was followed. 0: nothing. */
static uint64_t outside_of(const struct request *r, const struct path_segment *s)
{
    if (s->kind == REQUEST_PART_DOWNSTREAM)
        return s->socket ? s->socket << 1 : 1;
    return s->pid && s->pid != r->pid && s->owner == REQUEST_OWNER_THIS ? (uint64_t)s->pid << 1 | 1 : 0;
}

static uint64_t time_outside(const struct diagnosis *d, uint64_t outside)
{
    uint64_t sum_ns = 0;
    for (size_t i = 0; i < d->segments->count; i++)
        if (outside_of(&d->request, &d->segments->items[i]) == outside)
            sum_ns += d->segments->items[i].end_ns - d->segments->items[i].start_ns;
    return sum_ns;
}

static const struct resource *resource_of(const struct request_names *names, uint32_t pid, uint64_t cgroup_id)
{
    return names->resource ? names->resource(names->context, pid, cgroup_id) : NULL;
}

static void name_outside(struct diagnosis *d, const struct path_segment *s, const struct request_names *names)
{
    const struct resource *resource =
        s->kind == REQUEST_PART_DOWNSTREAM ? NULL : resource_of(names, s->pid, d->record->cgroup_id);
    d->upstream[0] = '\0';
    if (s->kind == REQUEST_PART_DOWNSTREAM && names->path.peer)
        names->path.peer(names->path.context, s->socket, d->upstream);
    else if (resource)
        snprintf(d->upstream, sizeof(d->upstream), "%s", resource->service_name);
}

/* The service that the request waited for longest, and how long it waited for others in all. */
static void set_upstream(struct diagnosis *d, const struct request_names *names)
{
    struct request *r = &d->request;
    const struct path_segment *longest = NULL;
    uint64_t longest_ns = 0, last = 0;
    for (size_t i = 0; d->segments && i < d->segments->count; i++) {
        const struct path_segment *s = &d->segments->items[i];
        const uint64_t outside = outside_of(r, s);
        if (!outside)
            continue;
        r->upstream_ns += s->end_ns - s->start_ns;
        const uint64_t ns = outside == last ? 0 : time_outside(d, outside);
        last = outside;
        if (ns > longest_ns) {
            longest_ns = ns;
            longest = s;
        }
    }
    if (longest)
        name_outside(d, longest, names);
    r->upstream = d->upstream;
}

static void set_service(struct diagnosis *d, const struct request_names *names)
{
    struct request *r = &d->request;
    const struct resource *resource = resource_of(names, d->record->h.pid, d->record->cgroup_id);
    snprintf(d->comm, sizeof(d->comm), "%.16s", d->record->comm);
    r->service = resource && resource->service_name[0] ? resource->service_name : d->comm;
    r->container_id = resource ? resource->container_id : "";
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
        .peer = peer_text(record->peer_family, record->peer_address, record->peer_port, d->peer, sizeof(d->peer)),
        .upstream = "",
        .weight = record->weight,
    };
    d->request.start_unix_ns = clock_unix_from_monotonic(d->request.start_ns);
    if (!d->segments)
        add_parts_without_path(d, no_path);
    else if ((r = add_path(d, names)) < 0)
        return r;
    sort_parts(&d->request);
    set_upstream(d, names);
    d->request.cause = request_sentence(&d->request, d->cause);
    set_service(d, names);
    return request_copy(&d->request, ret);
}
