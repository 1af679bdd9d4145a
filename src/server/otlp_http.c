/* OTLP over HTTP; see otlp_http.h. */
#include "server/otlp_http.h"

#include "base/protobuf.h"
#include "server/receiver.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#define PROTOBUF     "application/x-protobuf"
#define JSON         "application/json"
#define TEXT_OF(x)   #x
#define NUMBER_AS(x) TEXT_OF(x)

enum { STATUS_TEXT = 2 }; /* of google.rpc.Status, which OTLP wants as the body of an error */

static bool is_type(const char *content_type, const char *type)
{
    const size_t size = strlen(type);
    return content_type && strncasecmp(content_type, type, size) == 0 && strchr(" ;", content_type[size]);
}

/* A reply is in the format of its request. */
static bool is_json(const struct listener_request *request)
{
    return is_type(http_header(request->connection, "Content-Type"), JSON);
}

static enum MHD_Result reply(const struct listener_request *request, unsigned status, struct buf *body)
{
    const struct http_reply reply = {
        .status = status,
        .content_type = is_json(request) ? JSON : PROTOBUF,
        .retry_after_s = status == MHD_HTTP_SERVICE_UNAVAILABLE ? NUMBER_AS(RECEIVER_RETRY_S) : NULL,
        .allow = status == MHD_HTTP_METHOD_NOT_ALLOWED ? "POST" : NULL,
    };
    return http_reply_buf(request->connection, &reply, body);
}

/* `text` has no characters that JSON would escape. */
static enum MHD_Result reply_error(const struct listener_request *request, unsigned status, const char *text)
{
    _cleanup_buf_ struct buf body = {0};
    if (is_json(request))
        buf_printf(&body, "{\"message\":\"%s\"}", text);
    else
        protobuf_put_bytes(&body, STATUS_TEXT, text, strlen(text));
    return reply(request, status, &body);
}

static void put_response_json(struct buf *body, const struct otlp_signal *signal, const struct receiver_result *result)
{
    if (result->rejected)
        buf_printf(body, "{\"partialSuccess\":{\"%s\":\"%" PRIu64 "\",\"errorMessage\":\"%s\"}}", signal->rejected,
                   result->rejected, result->why);
    else
        buf_puts(body, "{}");
}

static enum MHD_Result reply_success(const struct listener_request *request, const struct otlp_signal *signal,
                                     const struct receiver_result *result)
{
    _cleanup_buf_ struct buf body = {0};
    if (is_json(request))
        put_response_json(&body, signal, result);
    else
        receiver_put_response(&body, result);
    return reply(request, MHD_HTTP_OK, &body);
}

static enum MHD_Result reply_failure(const struct listener_request *request, int error)
{
    static const unsigned statuses[] = {
        [RECEIVER_INVALID] = MHD_HTTP_BAD_REQUEST,
        [RECEIVER_TOO_LARGE] = MHD_HTTP_CONTENT_TOO_LARGE,
        [RECEIVER_UNKNOWN_ENCODING] = MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
        [RECEIVER_BUSY] = MHD_HTTP_SERVICE_UNAVAILABLE,
        [RECEIVER_FULL] = MHD_HTTP_SERVICE_UNAVAILABLE,
        [RECEIVER_BROKEN] = MHD_HTTP_SERVICE_UNAVAILABLE,
    };
    const struct receiver_failure failure = receiver_failure(error);
    return reply_error(request, statuses[failure.kind], failure.text);
}

enum MHD_Result otlp_http_answer(void *receiver, const struct listener_request *request)
{
    const struct otlp_signal *signal = otlp_signal_of_path(request->path);
    const char *type = http_header(request->connection, "Content-Type");
    struct receiver_result result;
    if (!signal)
        return reply_error(
            request, MHD_HTTP_NOT_FOUND,
            "this receiver has /v1/traces, /v1/logs, /v1/metrics, /v1development/profiles and /v1/opamp");
    if (strcmp(request->method, "POST") != 0)
        return reply_error(request, MHD_HTTP_METHOD_NOT_ALLOWED, "only POST is supported");
    if (!is_type(type, PROTOBUF) && !(is_json(request) && signal->json))
        return reply_error(request, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                           signal->json ? "Content-Type must be " PROTOBUF " or " JSON
                                        : "Content-Type must be " PROTOBUF);
    const struct receiver_request received = {
        .signal = signal,
        .is_json = is_json(request),
        .encoding = http_header(request->connection, "Content-Encoding"),
        .body = cursor_make(request->body->data, request->body->size),
        .client = http_client_address(request->connection),
    };
    const int r = receiver_store(receiver, &received, &result);
    return r < 0 ? reply_failure(request, r) : reply_success(request, signal, &result);
}
