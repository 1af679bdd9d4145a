/* Kinds of parts, and requests in one allocation; see request.h. */
#include "model/request.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SLOW_MIN_NS 1000000 /* more than the median */

static const char *const kind_names[REQUEST_PART_COUNT] = {
#define X(id, name) [REQUEST_PART_##id] = name,
    REQUEST_PART_KINDS(X)
#undef X
};

const char *request_part_name(enum request_part_kind kind)
{
    assert(kind < REQUEST_PART_COUNT);
    return kind_names[kind];
}

const char *request_owner_name(enum request_owner owner)
{
    static const char *const names[REQUEST_OWNER_COUNT] = {"this", "other", "several", "unknown"};
    assert(owner < REQUEST_OWNER_COUNT);
    return names[owner];
}

const char *request_choice_name(enum request_choice choice)
{
    static const char *const names[REQUEST_CHOICE_COUNT] = {"all", "abnormal", "groups", "abnormal_groups"};
    assert(choice < REQUEST_CHOICE_COUNT);
    return names[choice];
}

static size_t text_bytes(const char *text)
{
    return (text ? strlen(text) : 0) + 1;
}

/* Copies a string to `*at` and advances it. */
static const char *put_text(char **at, const char *text)
{
    size_t bytes = text_bytes(text);
    char *copy = *at;
    memcpy(copy, text ? text : "", bytes);
    *at += bytes;
    return copy;
}

/* Copies the segments and the times of their kinds to `segments`, all but their strings. Returns the first byte behind
 * them. */
static char *put_segments(const struct request *r, struct request_segment *segments)
{
    struct request_kind_time *times = (struct request_kind_time *)(segments + r->segment_count);
    for (size_t i = 0; i < r->segment_count; i++) {
        segments[i] = r->segments[i];
        segments[i].times = times;
        for (size_t k = 0; k < segments[i].time_count; k++)
            *times++ = r->segments[i].times[k];
    }
    return (char *)times;
}

int request_copy(const struct request *r, struct request **ret)
{
    if (r->part_count > REQUEST_PARTS_MAX || r->segment_count > REQUEST_SEGMENTS_MAX)
        return -EINVAL;
    for (size_t i = 0; i < r->segment_count; i++)
        if (r->segments[i].time_count > REQUEST_PART_COUNT)
            return -EINVAL;
    size_t bytes = sizeof(*r) + r->segment_count * sizeof(*r->segments) + text_bytes(r->service) + text_bytes(r->unit) +
                   text_bytes(r->container_id) + text_bytes(r->method) + text_bytes(r->route) + text_bytes(r->peer) +
                   text_bytes(r->upstream) + text_bytes(r->upstream_call) + text_bytes(r->model) +
                   text_bytes(r->cause) + text_bytes(r->group_cause);
    for (size_t i = 0; i < r->part_count; i++)
        bytes += text_bytes(r->parts[i].detail) + text_bytes(r->parts[i].stack);
    for (size_t i = 0; i < r->segment_count; i++)
        bytes += r->segments[i].time_count * sizeof(r->segments[i].times[0]) + text_bytes(r->segments[i].thread) +
                 text_bytes(r->segments[i].process) + text_bytes(r->segments[i].detail) +
                 text_bytes(r->segments[i].notes);
    struct request *copy = malloc(bytes);
    if (!copy)
        return -ENOMEM;
    struct request_segment *segments = (struct request_segment *)(copy + 1);
    char *at = put_segments(r, segments);
    *copy = *r;
    copy->segments = segments;
    for (size_t i = 0; i < r->segment_count; i++) {
        segments[i].thread = put_text(&at, r->segments[i].thread);
        segments[i].process = put_text(&at, r->segments[i].process);
        segments[i].detail = put_text(&at, r->segments[i].detail);
        segments[i].notes = put_text(&at, r->segments[i].notes);
    }
    copy->service = put_text(&at, r->service);
    copy->unit = put_text(&at, r->unit);
    copy->container_id = put_text(&at, r->container_id);
    copy->method = put_text(&at, r->method);
    copy->route = put_text(&at, r->route);
    copy->peer = put_text(&at, r->peer);
    copy->upstream = put_text(&at, r->upstream);
    copy->upstream_call = put_text(&at, r->upstream_call);
    copy->model = put_text(&at, r->model);
    copy->cause = put_text(&at, r->cause);
    copy->group_cause = put_text(&at, r->group_cause);
    for (size_t i = 0; i < r->part_count; i++) {
        copy->parts[i].detail = put_text(&at, r->parts[i].detail);
        copy->parts[i].stack = put_text(&at, r->parts[i].stack);
    }
    copy->bytes = bytes;
    *ret = copy;
    return 0;
}

void request_free(struct request *r)
{
    free(r);
}

uint64_t request_list_total(struct request *const *list, size_t count)
{
    double total = 0;
    for (size_t i = 0; i < count; i++)
        total += list[i]->group.requests > 0 ? list[i]->group.requests : 1;
    return (uint64_t)(total + 0.5);
}

bool request_next_frame(const char **at, char line[REQUEST_FRAME_BYTES])
{
    size_t bytes = strcspn(*at, "\n"), shown = bytes < REQUEST_FRAME_BYTES ? bytes : REQUEST_FRAME_BYTES - 1;
    if (!**at)
        return false;
    memcpy(line, *at, shown);
    line[shown] = '\0';
    *at += bytes + ((*at)[bytes] == '\n');
    return true;
}

const char *request_service_text(const char *service, const char *unit, uint16_t port, char out[REQUEST_SERVICE_BYTES])
{
    const size_t bytes = strlen(service);
    const bool is_unit = bytes && strncmp(unit, service, bytes) == 0 && unit[bytes] == '.';
    const int used = snprintf(out, REQUEST_SERVICE_BYTES, "%.200s", is_unit ? unit : service);
    if (port)
        snprintf(out + used, REQUEST_SERVICE_BYTES - (size_t)used, " :%u", port);
    return out;
}

bool request_service_matches(const char *wanted, const char *service, const char *unit, uint16_t port)
{
    char shown[REQUEST_SERVICE_BYTES];
    return strcmp(wanted, service) == 0 || strcmp(wanted, unit) == 0 ||
           strcmp(wanted, request_service_text(service, unit, port, shown)) == 0;
}

void request_segment_sum(const struct request_segment *s, uint64_t sums_ns[REQUEST_PART_COUNT])
{
    for (size_t i = 0; i < s->time_count; i++)
        sums_ns[s->times[i].kind] += s->times[i].ns;
    if (!s->time_count)
        sums_ns[s->kind] += s->duration_ns;
}

uint64_t request_kind_ns(const struct request *r, enum request_part_kind kind)
{
    uint64_t sum_ns = 0;
    for (size_t i = 0; i < r->part_count; i++)
        if (r->parts[i].kind == kind)
            sum_ns += r->parts[i].duration_ns;
    return sum_ns;
}

const char *request_protocol_name(enum request_protocol_kind protocol)
{
    static const char *const names[REQUEST_PROTOCOLS] = {"http/1", "http/2", "grpc"};
    return names[protocol];
}

const char *request_status_text(uint16_t status, char out[REQUEST_STATUS_BYTES])
{
    static const char *const grpc[] = {
        "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
        "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
        "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
        "DATA_LOSS", "UNAUTHENTICATED"};
    if (status < REQUEST_STATUS_GRPC)
        snprintf(out, REQUEST_STATUS_BYTES, "%u", status);
    else if (status - REQUEST_STATUS_GRPC < (int)array_size(grpc))
        snprintf(out, REQUEST_STATUS_BYTES, "%s", grpc[status - REQUEST_STATUS_GRPC]);
    else
        snprintf(out, REQUEST_STATUS_BYTES, "unknown");
    return out;
}

const char *request_rpc_method(const char *route)
{
    return route[0] == '/' ? route + 1 : route;
}

uint16_t request_status_class(uint16_t status)
{
    return status < REQUEST_STATUS_GRPC ? status / 100 : request_is_failed(status) ? 5 : 2;
}

bool request_is_failed(uint16_t status)
{
    return status == 0 || (status >= 500 && status != REQUEST_STATUS_GRPC && status != REQUEST_STATUS_GRPC_UNKNOWN);
}

bool request_is_slow(uint64_t duration_ns, const struct request_usual *usual)
{
    return usual->requests && duration_ns / 3 >= usual->p50_ns && duration_ns - usual->p50_ns >= SLOW_MIN_NS;
}

enum request_part_kind request_top_kind(const uint64_t kind_ns[REQUEST_PART_COUNT], uint64_t duration_ns,
                                        const struct request_usual *usual)
{
    const bool compares = usual->explained && request_is_slow(duration_ns, usual);
    enum request_part_kind top = 0;
    uint64_t top_ns = 0;
    for (int kind = 0; kind < REQUEST_PART_COUNT; kind++) {
        const uint64_t usual_ns = compares ? usual->part_p50_ns[kind] : 0;
        const uint64_t more_ns = kind_ns[kind] > usual_ns ? kind_ns[kind] - usual_ns : 0;
        if (more_ns > top_ns) {
            top_ns = more_ns;
            top = (enum request_part_kind)kind;
        }
    }
    return top;
}

const struct trace_link *request_exemplar(const struct request *r)
{
    return trace_link_is_set(&r->span.id) ? &r->span.id : trace_link_is_set(&r->link) ? &r->link : NULL;
}
