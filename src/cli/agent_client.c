/* HTTP client for a running agent; see agent_client.h. */
#include "cli/agent_client.h"

#include "base/buf.h"
#include "base/log.h"

#include <curl/curl.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define RESPONSE_MAX_BYTES (16 << 20)
#define PROFILE_MAX_BYTES  (256 << 20)
#define TIMEOUT_MS         10000

static size_t append_response(char *data, size_t size, size_t count, void *context)
{
    return buf_append(context, data, size * count) == 0 ? count : 0;
}

static int errno_of_curl(CURLcode code)
{
    return code == CURLE_OK                   ? 0
           : code == CURLE_COULDNT_CONNECT    ? -ECONNREFUSED
           : code == CURLE_OPERATION_TIMEDOUT ? -ETIMEDOUT
           : code == CURLE_URL_MALFORMAT      ? -EINVAL
                                              : -EIO;
}

static int http_get(const char *url, struct buf *ret_body)
{
    const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (code != CURLE_OK) {
        log_warning("libcurl cannot be used, and no agent can be queried without it: %s", curl_easy_strerror(code));
        return -ENOPKG;
    }
    CURL *curl = curl_easy_init();
    if (!curl)
        return -ENOMEM;
    long status = 0;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* ignores http_proxy: agents are reached directly */
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)TIMEOUT_MS);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, append_response);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, ret_body);
    int r = errno_of_curl(curl_easy_perform(curl));
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(curl);
    return r < 0 ? r : status == 200 ? 0 : -EPROTO;
}

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
    json_t *line;
    json_array_foreach(array, i, line)
    {
        const char *text = json_string_value(line);
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

/* `notes`: one buffer a segment, which the caller clears. */
static size_t decode_segments(const json_t *array, struct buf *notes, struct request_segment ret[REQUEST_SEGMENTS_MAX])
{
    size_t i, count = 0;
    json_t *segment;
    json_array_foreach(array, i, segment)
    {
        const char *thread = json_string_value(json_object_get(segment, "thread")),
                   *detail = json_string_value(json_object_get(segment, "detail")),
                   *evidence = json_string_value(json_object_get(segment, "evidence"));
        if (count == REQUEST_SEGMENTS_MAX)
            break;
        const char *lines = decode_lines(json_object_get(segment, "notes"), &notes[count]);
        ret[count++] = (struct request_segment){
            .start_ns = json_number(segment, "start_ns"),
            .duration_ns = json_number(segment, "ns"),
            .kind = part_kind(json_string_value(json_object_get(segment, "kind"))),
            .owner = decode_owner(json_string_value(json_object_get(segment, "owner"))),
            .is_inferred = !evidence || strcmp(evidence, "measured") != 0,
            .tid = (uint32_t)json_number(segment, "tid"),
            .pid = (uint32_t)json_number(segment, "pid"),
            .thread = thread ? thread : "",
            .detail = detail ? detail : "",
            .notes = lines,
        };
    }
    return count;
}

/* Strings point into the JSON object until request_copy moves them into one allocation, which request_free frees. */
static struct request *decode_request(const json_t *object, struct buf *stacks)
{
    const char *text[] = {
        json_string_value(json_object_get(object, "service")),
        json_string_value(json_object_get(object, "container_id")),
        json_string_value(json_object_get(object, "method")),
        json_string_value(json_object_get(object, "route")),
        json_string_value(json_object_get(object, "peer")),
        json_string_value(json_object_get(object, "cause")),
    };
    struct request r = {
        .start_unix_ns = json_number(object, "start_time_unix_nano"),
        .duration_ns = json_number(object, "duration_ns"),
        .pid = (uint32_t)json_number(object, "pid"),
        .tid = (uint32_t)json_number(object, "tid"),
        .status = (uint16_t)json_number(object, "status"),
        .bytes_in = json_number(object, "bytes_in"),
        .bytes_out = json_number(object, "bytes_out"),
        .link = decode_link(object),
        .service = text[0] ? text[0] : "",
        .container_id = text[1] ? text[1] : "",
        .method = text[2] ? text[2] : "",
        .route = text[3] ? text[3] : "",
        .peer = text[4] ? text[4] : "",
        .cause = text[5] ? text[5] : "",
    };
    struct request_segment segments[REQUEST_SEGMENTS_MAX];
    struct buf notes[REQUEST_SEGMENTS_MAX] = {0};
    r.segments = segments;
    r.segment_count = decode_segments(json_object_get(object, "segments"), notes, segments);
    size_t i;
    json_t *part;
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
    struct request *copy = NULL;
    int result = request_copy(&r, &copy);
    for (i = 0; i < REQUEST_PARTS_MAX; i++)
        buf_clear(&stacks[i]);
    for (i = 0; i < r.segment_count; i++)
        buf_clear(&notes[i]);
    return result == 0 ? copy : NULL;
}

static int decode_requests(const struct buf *body, struct request ***ret, size_t *ret_count)
{
    json_error_t error;
    json_t *array = json_loadb(body->data ? body->data : "", body->size, 0, &error);
    if (!json_is_array(array)) {
        json_decref(array);
        return -EBADMSG;
    }
    size_t size = json_array_size(array), count = 0, i;
    struct request **requests = calloc(size ? size : 1, sizeof(struct request *));
    json_t *object;
    struct buf stacks[REQUEST_PARTS_MAX] = {0};
    json_array_foreach(array, i, object)
    {
        struct request *request = requests ? decode_request(object, stacks) : NULL;
        if (request)
            requests[count++] = request;
    }
    json_decref(array);
    if (!requests)
        return -ENOMEM;
    *ret = requests;
    *ret_count = count;
    return 0;
}

int agent_client_requests(const char *address, uint64_t seconds, size_t max, struct request ***ret, size_t *ret_count)
{
    char url[512];
    if (snprintf(url, sizeof(url), "http://%s/api/v1/requests?seconds=%llu&max=%zu", address,
                 (unsigned long long)seconds, max) >= (int)sizeof(url))
        return -EINVAL;
    _cleanup_buf_ struct buf body = {.max_bytes = RESPONSE_MAX_BYTES};
    int r = http_get(url, &body);
    return r < 0 ? r : decode_requests(&body, ret, ret_count);
}

int agent_client_state(const char *address, struct agent_state *ret)
{
    char url[512];
    if (snprintf(url, sizeof(url), "http://%s/api/v1/status", address) >= (int)sizeof(url))
        return -EINVAL;
    _cleanup_buf_ struct buf body = {.max_bytes = RESPONSE_MAX_BYTES};
    int r = http_get(url, &body);
    if (r < 0)
        return r;
    json_error_t error;
    json_t *status = json_loadb(body.data ? body.data : "", body.size, 0, &error);
    const char *detail = json_string_value(json_object_get(json_object_get(status, "budget"), "detail"));
    double uptime = json_number_value(json_object_get(status, "uptime_seconds"));
    if (detail) {
        snprintf(ret->detail, sizeof(ret->detail), "%s", detail);
        ret->now_ms = json_number(status, "now_ms");
        ret->uptime_ns = uptime > 0 && uptime < 1e9 ? (uint64_t)(uptime * 1e9) : 0;
    }
    json_decref(status);
    return detail ? 0 : -EBADMSG;
}

int agent_client_profile(const char *address, const char *query, struct buf *ret_body)
{
    char url[512];
    if (snprintf(url, sizeof(url), "http://%s/api/v1/profile?%s", address, query) >= (int)sizeof(url))
        return -EINVAL;
    ret_body->max_bytes = PROFILE_MAX_BYTES;
    return http_get(url, ret_body);
}
