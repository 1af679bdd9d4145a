/* Decodes the JSON of requests and routes (jansson); see agent_reply.h. */
#include "client/agent_reply.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static int part_kind(const char *name)
{
    for (int kind = 0; name && kind < REQUEST_PART_COUNT; kind++)
        if (strcmp(request_part_name(kind), name) == 0)
            return kind;
    return REQUEST_PART_UNATTRIBUTED;
}

static uint64_t json_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_string(value) ? strtoull(json_string_value(value), NULL, 10) : (uint64_t)json_integer_value(value);
}

/* Joins lines by newlines, the format of request_part.stack and request_segment.notes. Returns the text of `out`, ""
 * when it is empty. */
static const char *decode_lines(const json_t *array, struct buf *out)
{
    size_t i;
    json_t *frame;
    json_array_foreach(array, i, frame)
    {
        const char *text = json_string_value(frame);
        if (i)
            buf_putc(out, '\n');
        buf_puts(out, text ? text : "");
    }
    return out->size && buf_error(out) == 0 ? out->data : "";
}

static struct trace_link decode_link(const json_t *object)
{
    const char *trace_id = json_string_value(json_object_get(object, "trace_id"));
    const char *span_id = json_string_value(json_object_get(object, "span_id"));
    struct trace_link link = {0};
    if (trace_id && sscanf(trace_id, "%16" SCNx64 "%16" SCNx64, &link.trace_id_high, &link.trace_id_low) == 2 &&
        span_id)
        link.span_id = strtoull(span_id, NULL, 16);
    return link;
}

static enum request_owner decode_owner(const char *name)
{
    for (int i = 0; name && i < REQUEST_OWNER_COUNT; i++)
        if (strcmp(name, request_owner_name(i)) == 0)
            return i;
    return REQUEST_OWNER_UNKNOWN;
}

/* What segments point to. The caller clears the notes. */
struct segment_data {
    struct buf notes[REQUEST_SEGMENTS_MAX];
    struct request_kind_time times[REQUEST_SEGMENTS_MAX][REQUEST_PART_COUNT];
};

static size_t decode_times(const json_t *array, struct request_kind_time ret[REQUEST_PART_COUNT])
{
    size_t i, count = 0;
    json_t *time;
    json_array_foreach(array, i, time)
    {
        if (count == REQUEST_PART_COUNT)
            break;
        ret[count++] = (struct request_kind_time){part_kind(json_string_value(json_object_get(time, "kind"))),
                                                  json_number(time, "ns")};
    }
    return count;
}

static size_t decode_segments(const json_t *array, struct segment_data *data,
                              struct request_segment ret[REQUEST_SEGMENTS_MAX])
{
    size_t i, count = 0;
    json_t *segment;
    json_array_foreach(array, i, segment)
    {
        const char *thread = json_string_value(json_object_get(segment, "thread")),
                   *process = json_string_value(json_object_get(segment, "process")),
                   *detail = json_string_value(json_object_get(segment, "detail")),
                   *evidence = json_string_value(json_object_get(segment, "evidence"));
        if (count == REQUEST_SEGMENTS_MAX)
            break;
        const char *lines = decode_lines(json_object_get(segment, "notes"), &data->notes[count]);
        ret[count] = (struct request_segment){
            .start_ns = json_number(segment, "start_ns"),
            .duration_ns = json_number(segment, "ns"),
            .kind = part_kind(json_string_value(json_object_get(segment, "kind"))),
            .owner = decode_owner(json_string_value(json_object_get(segment, "owner"))),
            .is_inferred = !evidence || strcmp(evidence, "measured") != 0,
            .tid = (uint32_t)json_number(segment, "tid"),
            .pid = (uint32_t)json_number(segment, "pid"),
            .thread = thread ? thread : "",
            .process = process ? process : "",
            .detail = detail ? detail : "",
            .notes = lines,
            .times = data->times[count],
            .time_count = decode_times(json_object_get(segment, "times"), data->times[count]),
        };
        count++;
    }
    return count;
}

static struct request_usual decode_usual(const json_t *object)
{
    struct request_usual usual = {.requests = (uint32_t)json_number(object, "requests"),
                                  .p50_ns = json_number(object, "p50_ns"),
                                  .p99_ns = json_number(object, "p99_ns"),
                                  .first_p50_ns = json_number(object, "first_p50_ns"),
                                  .explained = (uint32_t)json_number(object, "explained"),
                                  .known = (uint32_t)json_number(object, "known")};
    size_t i;
    json_t *part;
    json_array_foreach(json_object_get(object, "parts"), i, part)
    {
        const int kind = part_kind(json_string_value(json_object_get(part, "kind")));
        usual.part_p50_ns[kind] = json_number(part, "p50_ns");
        usual.part_p99_ns[kind] = json_number(part, "p99_ns");
    }
    return usual;
}

static struct request_group decode_group(const json_t *object)
{
    return (struct request_group){.requests = json_number_value(json_object_get(object, "requests")),
                                  .lost_ns = json_number(object, "lost_ns"),
                                  .time_ns = json_number(object, "time_ns"),
                                  .is_estimate = json_is_true(json_object_get(object, "estimated"))};
}

static struct request_stream decode_stream(const json_t *object)
{
    return (struct request_stream){.is_stream = object != NULL,
                                   .is_late = json_is_true(json_object_get(object, "is_late")),
                                   .is_incomplete = json_is_true(json_object_get(object, "is_incomplete")),
                                   .first_byte_ns = json_number(object, "first_byte_ns"),
                                   .first_ns = json_number(object, "first_ns"),
                                   .last_ns = json_number(object, "last_ns"),
                                   .chunks = (uint32_t)json_number(object, "chunks"),
                                   .tokens = (uint32_t)json_number(object, "tokens"),
                                   .usage = (uint32_t)json_number(object, "usage")};
}

static uint16_t decode_status(const json_t *object)
{
    const json_t *grpc = json_object_get(object, "grpc_status");
    if (!grpc)
        return (uint16_t)json_number(object, "status");
    const json_int_t status = json_integer_value(grpc);
    return json_is_integer(grpc) && status >= 0 && status < REQUEST_STATUS_GRPC_UNKNOWN - REQUEST_STATUS_GRPC
               ? (uint16_t)(REQUEST_STATUS_GRPC + status)
               : REQUEST_STATUS_GRPC_UNKNOWN;
}

static enum request_protocol_kind decode_protocol(const char *name)
{
    for (int i = 0; name && i < REQUEST_PROTOCOLS; i++)
        if (strcmp(name, request_protocol_name(i)) == 0)
            return i;
    return REQUEST_PROTOCOL_HTTP1;
}

/* Makes a struct request at `*ret`. Strings point into the JSON object until request_copy moves them into one
 * allocation, which request_free frees. */
static bool decode_request(const json_t *object, void *ret)
{
    const char *text[] = {
        json_string_value(json_object_get(object, "service")),
        json_string_value(json_object_get(object, "container_id")),
        json_string_value(json_object_get(object, "method")),
        json_string_value(json_object_get(object, "route")),
        json_string_value(json_object_get(object, "peer")),
        json_string_value(json_object_get(object, "cause")),
        json_string_value(json_object_get(object, "upstream")),
        json_string_value(json_object_get(object, "unit")),
        json_string_value(json_object_get(object, "group_cause")),
        json_string_value(json_object_get(object, "model")),
        json_string_value(json_object_get(object, "upstream_call")),
    };
    const json_t *stream = json_object_get(object, "stream");
    struct request r = {
        .start_unix_ns = json_number(object, "start_time_unix_nano"),
        .duration_ns = json_number(object, "duration_ns"),
        .pid = (uint32_t)json_number(object, "pid"),
        .tid = (uint32_t)json_number(object, "tid"),
        .status = decode_status(object),
        .protocol = decode_protocol(json_string_value(json_object_get(object, "protocol"))),
        .is_tls = json_is_true(json_object_get(object, "tls")),
        .bytes_in = json_number(object, "bytes_in"),
        .bytes_out = json_number(object, "bytes_out"),
        .link = decode_link(object),
        .service = text[0] ? text[0] : "",
        .container_id = text[1] ? text[1] : "",
        .method = text[2] ? text[2] : "",
        .route = text[3] ? text[3] : "",
        .peer = text[4] ? text[4] : "",
        .cause = text[5] ? text[5] : "",
        .upstream = text[6] ? text[6] : "",
        .unit = text[7] ? text[7] : "",
        .port = (uint16_t)json_number(object, "port"),
        .upstream_ns = json_number(object, "upstream_ns"),
        .usual = decode_usual(json_object_get(object, "usual")),
        .group_cause = text[8] ? text[8] : "",
        .group = decode_group(json_object_get(object, "group")),
        .model = text[9] ? text[9] : "",
        .upstream_call = text[10] ? text[10] : "",
        .stream = decode_stream(stream),
    };
    if (!r.usual.requests)
        r.usual.known = (uint32_t)json_number(object, "usual_known");
    struct request_segment segments[REQUEST_SEGMENTS_MAX];
    struct segment_data data = {0};
    struct buf stacks[REQUEST_PARTS_MAX] = {0};
    r.segments = segments;
    r.segment_count = decode_segments(json_object_get(object, "segments"), &data, segments);
    size_t i;
    json_t *part;
    json_array_foreach(json_object_get(stream, "first_parts"), i, part)
        r.first_part_ns[part_kind(json_string_value(json_object_get(part, "kind")))] = json_number(part, "ns");
    json_array_foreach(json_object_get(object, "parts"), i, part)
    {
        if (i == REQUEST_PARTS_MAX)
            break;
        const char *detail = json_string_value(json_object_get(part, "detail"));
        const char *stack = decode_lines(json_object_get(part, "stack"), &stacks[i]);
        r.parts[r.part_count++] = (struct request_part){
            .kind = part_kind(json_string_value(json_object_get(part, "kind"))),
            .duration_ns = json_number(part, "ns"),
            .detail = detail ? detail : "",
            .stack = stack,
        };
    }
    const int result = request_copy(&r, ret);
    for (i = 0; i < REQUEST_PARTS_MAX; i++)
        buf_clear(&stacks[i]);
    for (i = 0; i < r.segment_count; i++)
        buf_clear(&data.notes[i]);
    return result == 0;
}

static void copy_text(char *out, size_t size, const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    snprintf(out, size, "%s", text ? text : "");
}

static uint64_t json_seconds_ns(const json_t *object, const char *key)
{
    const double seconds = json_number_value(json_object_get(object, key));
    return seconds > 0 && seconds < 1e9 ? (uint64_t)(seconds * 1e9) : 0;
}

static enum opaque_protocol find_protocol(const char *name)
{
    for (int i = 0; name && i < OPAQUE_PROTOCOLS; i++)
        if (strcmp(name, opaque_protocol_name(i)) == 0)
            return i;
    return OPAQUE_UNKNOWN;
}

static void decode_coverage(const json_t *object, struct coverage *ret)
{
    size_t i;
    json_t *item;
    *ret = (struct coverage){.asked_ns = json_seconds_ns(object, "asked_seconds"),
                             .observed_ns = json_seconds_ns(object, "observed_seconds"),
                             .ports_omitted = json_number(object, "opaque_ports_omitted")};
    copy_text(ret->overload, sizeof(ret->overload), object, "overload");
    json_array_foreach(json_object_get(object, "gaps"), i, item)
    {
        const char *reason = json_string_value(json_object_get(item, "reason")),
                   *text = json_string_value(json_object_get(item, "text"));
        coverage_add_gap(ret, coverage_reason_find(reason ? reason : ""), json_seconds_ns(item, "seconds"), "%s",
                         text ? text : "");
    }
    json_array_foreach(json_object_get(object, "opaque_ports"), i, item)
    {
        if (ret->port_count == COVERAGE_PORTS_MAX)
            break;
        struct opaque_port *port = &ret->ports[ret->port_count++];
        *port = (struct opaque_port){
            .port = (uint16_t)json_number(item, "port"),
            .protocol = find_protocol(json_string_value(json_object_get(item, "protocol"))),
            .bytes_per_second = json_number_value(json_object_get(item, "bytes_per_second")),
            .connections = json_number(item, "connections"),
        };
        copy_text(port->process, sizeof(port->process), item, "service");
    }
}

/* Decodes an element of a list. False: the element is left out, there is no memory for it. */
typedef bool decode_element(const json_t *object, void *ret);

/* Decodes the coverage of a reply and its list `name`, whose elements take `element_bytes` each. `ret` is the
 * address of a pointer to them; the caller frees the array. 0, -EBADMSG or -ENOMEM. */
static int decode_list(const struct buf *body, const char *name, size_t element_bytes, decode_element *decode,
                       struct coverage *ret_coverage, void *ret, size_t *ret_count)
{
    json_error_t error;
    json_t *root = json_loadb(body->data ? body->data : "", body->size, 0, &error), *object;
    const json_t *array = json_object_get(root, name);
    char *list = calloc(json_array_size(array) + 1, element_bytes);
    const int r = !json_is_array(array) ? -EBADMSG : list ? 0 : -ENOMEM;
    size_t count = 0, i;
    if (r == 0) {
        json_array_foreach(array, i, object) count += decode(object, list + count * element_bytes);
        decode_coverage(json_object_get(root, "coverage"), ret_coverage);
    }
    json_decref(root);
    if (r < 0) {
        free(list);
        return r;
    }
    memcpy(ret, &list, sizeof(list));
    *ret_count = count;
    return 0;
}

int agent_reply_requests(const struct buf *body, struct coverage *ret_coverage, struct request ***ret,
                         size_t *ret_count)
{
    return decode_list(body, "requests", sizeof(**ret), decode_request, ret_coverage, ret, ret_count);
}

static void decode_causes(const json_t *array, struct request_route *ret)
{
    size_t i;
    json_t *cause;
    json_array_foreach(array, i, cause)
    {
        if (i == REQUEST_CAUSES_MAX)
            break;
        const json_t *status = json_object_get(cause, "status");
        ret->causes[ret->cause_count++] =
            (struct request_cause){.group = decode_group(json_object_get(cause, "group")),
                                   .kind = part_kind(json_string_value(json_object_get(cause, "kind"))),
                                   .is_failed = status,
                                   .status = decode_status(cause)};
    }
}

static bool decode_route(const json_t *object, void *ret_route)
{
    struct request_route *ret = ret_route;
    *ret = (struct request_route){
        .protocol = decode_protocol(json_string_value(json_object_get(object, "protocol"))),
        .lacks_path = json_is_true(json_object_get(object, "lacks_path")),
        .span_ns = json_number(object, "span_ns"),
        .sampled = (uint32_t)json_number(object, "sampled"),
        .is_estimate = json_is_true(json_object_get(object, "estimated")),
        .requests = json_number_value(json_object_get(object, "requests")),
        .failed = json_number_value(json_object_get(object, "failed")),
        .usual = decode_usual(json_object_get(object, "usual")),
        .slow = decode_usual(json_object_get(object, "slow")),
        .top_kind = part_kind(json_string_value(json_object_get(object, "top_kind"))),
        .top_count = (uint32_t)json_number(object, "top_count"),
        .port = (uint16_t)json_number(object, "port"),
        .lost_ns = json_number(object, "lost_ns"),
        .lost_is_estimate = json_is_true(json_object_get(object, "lost_estimated")),
        .time_ns = json_number(object, "time_ns"),
    };
    ret->known = (uint32_t)json_number(object, "usual_known");
    copy_text(ret->service, sizeof(ret->service), object, "service");
    copy_text(ret->unit, sizeof(ret->unit), object, "unit");
    copy_text(ret->cause, sizeof(ret->cause), object, "cause");
    decode_causes(json_object_get(object, "causes"), ret);
    copy_text(ret->method, sizeof(ret->method), object, "method");
    copy_text(ret->route, sizeof(ret->route), object, "route");
    return true;
}

int agent_reply_routes(const struct buf *body, struct coverage *ret_coverage, struct request_route **ret,
                       size_t *ret_count)
{
    return decode_list(body, "routes", sizeof(**ret), decode_route, ret_coverage, ret, ret_count);
}

static bool decode_call(const json_t *object, void *ret_call)
{
    struct service_call *ret = ret_call;
    size_t i;
    json_t *kind;
    *ret = (struct service_call){
        .calls_per_second = json_number_value(json_object_get(object, "calls_per_second")),
        .calls = json_number(object, "calls"),
        .failed = json_number(object, "failed"),
        .wait_ns = json_number(object, "wait_ns"),
        .p50_ns = json_number(object, "p50_ns"),
        .p99_ns = json_number(object, "p99_ns"),
    };
    copy_text(ret->client, sizeof(ret->client), object, "client");
    copy_text(ret->server, sizeof(ret->server), object, "server");
    copy_text(ret->address, sizeof(ret->address), object, "address");
    copy_text(ret->protocol, sizeof(ret->protocol), object, "protocol");
    json_array_foreach(json_object_get(object, "kinds"), i, kind)
    {
        if (ret->kind_count == SERVICE_CALL_KINDS_MAX)
            break;
        struct service_call_kind *to = &ret->kinds[ret->kind_count++];
        to->calls = json_number(kind, "calls");
        to->wait_ns = json_number(kind, "wait_ns");
        copy_text(to->name, sizeof(to->name), kind, "kind");
    }
    return true;
}

int agent_reply_calls(const struct buf *body, struct coverage *ret_coverage, struct service_call **ret,
                      size_t *ret_count)
{
    return decode_list(body, "calls", sizeof(**ret), decode_call, ret_coverage, ret, ret_count);
}

/* Attributes that do not fit are left out. */
static bool decode_event(const json_t *object, void *ret_event)
{
    struct agent_event *ret = ret_event;
    const json_t *attributes = json_object_get(object, "attributes");
    ret->time_unix_ns = json_number(object, "time_unix_nano");
    ret->duration_ns = json_number(object, "duration_ns");
    ret->pid = json_number(attributes, "process.pid");
    ret->launches = json_number(attributes, "launches");
    copy_text(ret->name, sizeof(ret->name), object, "name");
    copy_text(ret->text, sizeof(ret->text), object, "text");
    const size_t size = json_dumpb(attributes, ret->attributes, sizeof(ret->attributes) - 1, JSON_COMPACT);
    if (!size || size >= sizeof(ret->attributes))
        memcpy(ret->attributes, "{}", sizeof("{}"));
    return true;
}

int agent_reply_events(const struct buf *body, struct coverage *ret_coverage, struct agent_event **ret,
                       size_t *ret_count)
{
    return decode_list(body, "events", sizeof(**ret), decode_event, ret_coverage, ret, ret_count);
}
