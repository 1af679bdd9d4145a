/* OTLP over HTTP; see receiver.h. */
#include "server/receiver.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/protobuf.h"
#include "serve/origin.h"
#include "server/batch.h"
#include "server/inflate.h"
#include "server/otlp_json.h"
#include "server/otlp_rows.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <xxhash.h>

#define DAY_NS            (86400ull * 1000000000)
#define PROTOBUF          "application/x-protobuf"
#define JSON              "application/json"
#define RETRY_S           "5"
#define TURN_NS           2000000000ull       /* that a request waits for a decoder */
#define WAITING_MAX_BYTES ((size_t)128 << 20) /* of decoded rows that wait for the disk */

static const struct otlp_signal *const signals[] = {&otlp_traces, &otlp_logs, &otlp_metrics, &otlp_profiles};

enum { EXPORT_PARTIAL_SUCCESS = 1, PARTIAL_REJECTED = 1, PARTIAL_MESSAGE = 2 };
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

/* ---- replies ---- */

static enum MHD_Result reply(const struct listener_request *request, unsigned status, struct buf *body)
{
    const struct http_reply reply = {
        .status = status,
        .content_type = is_json(request) ? JSON : PROTOBUF,
        .retry_after_s = status == MHD_HTTP_SERVICE_UNAVAILABLE ? RETRY_S : NULL,
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

static void put_partial_success(struct buf *body, const struct otlp_rows *rows)
{
    _cleanup_buf_ struct buf partial = {0};
    if (!rows->rejected)
        return;
    protobuf_put_number(&partial, PARTIAL_REJECTED, rows->rejected);
    protobuf_put_bytes(&partial, PARTIAL_MESSAGE, rows->why, strlen(rows->why));
    protobuf_put_message(body, EXPORT_PARTIAL_SUCCESS, &partial);
}

static void put_partial_success_json(struct buf *body, const struct otlp_signal *signal, const struct otlp_rows *rows)
{
    if (rows->rejected)
        buf_printf(body, "{\"partialSuccess\":{\"%s\":\"%" PRIu64 "\",\"errorMessage\":\"%s\"}}", signal->rejected,
                   rows->rejected, rows->why);
    else
        buf_puts(body, "{}");
}

static enum MHD_Result reply_success(const struct listener_request *request, const struct otlp_signal *signal,
                                     const struct otlp_rows *rows)
{
    _cleanup_buf_ struct buf body = {0};
    if (is_json(request))
        put_partial_success_json(&body, signal, rows);
    else
        put_partial_success(&body, rows);
    return reply(request, MHD_HTTP_OK, &body);
}

static enum MHD_Result reply_failure(const struct listener_request *request, int error)
{
    switch (error) {
    case -EBADMSG:
        return reply_error(request, MHD_HTTP_BAD_REQUEST, "the body is not a valid message of this path");
    case -ELOOP:
        return reply_error(request, MHD_HTTP_BAD_REQUEST, "attribute values are nested too deeply");
    case -EFBIG:
        return reply_error(request, MHD_HTTP_CONTENT_TOO_LARGE, "the body is too large: send smaller batches");
    case -EOPNOTSUPP:
        return reply_error(request, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "Content-Encoding must be gzip, zstd or identity");
    case -EBUSY:
        return reply_error(request, MHD_HTTP_SERVICE_UNAVAILABLE, "too many requests at once: try again later");
    case -ENOSPC:
        return reply_error(request, MHD_HTTP_SERVICE_UNAVAILABLE, "the server's spool is full: try again later");
    default:
        log_errno(error, "a batch cannot be stored");
        return reply_error(request, MHD_HTTP_SERVICE_UNAVAILABLE, "the batch cannot be stored now: try again later");
    }
}

/* ---- a request ---- */

/* A retry has the same bytes, after decompression, and comes from the same client. */
static struct batch_key key_of(const struct listener_request *request, const struct otlp_signal *signal,
                               const struct buf *message)
{
    const struct sockaddr *client =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
    const XXH128_hash_t hash = XXH3_128bits_withSeed(
        message->data, message->size, origin_of_address(client) ^ XXH3_64bits(signal->path, strlen(signal->path)));
    struct batch_key key;
    memcpy(key.bytes, &hash, sizeof(key.bytes));
    return key;
}

/* The rows as the data of a batch; their memory is freed on the way. */
static int gather_rows(struct otlp_rows *rows, struct buf *data, uint32_t *ret_count)
{
    *ret_count = 0;
    for (enum table table = 0; table < TABLE_COUNT; table++) {
        batch_put_rows(data, table, &rows->tables[table]);
        buf_clear(&rows->tables[table]);
        *ret_count += rows->counts[table];
    }
    return buf_error(data);
}

static int decode(const struct receiver *receiver, const struct listener_request *request,
                  const struct otlp_signal *signal, struct otlp_rows *rows, struct batch_key *ret_key)
{
    _cleanup_buf_ struct buf message = {0};
    const uint64_t now_ns = receiver->unix_ns();
    int r = inflate_body(&message, http_header(request->connection, "Content-Encoding"), request->body->data,
                         request->body->size, RECEIVER_BODY_MAX_BYTES);
    if (r < 0)
        return r;
    rows->from_ns = now_ns - receiver->keep_days * DAY_NS;
    rows->to_ns = now_ns + DAY_NS;
    *ret_key = key_of(request, signal, &message);
    if (is_json(request)) {
        _cleanup_buf_ struct buf text = message;
        message = (struct buf){.max_bytes = RECEIVER_BODY_MAX_BYTES};
        r = otlp_json_to_protobuf(text.data ? text.data : "", text.size, signal->json, &message);
    }
    return r < 0 ? r : signal->decode(cursor_make(message.data, message.size), rows);
}

static int wait_for_turn(struct receiver *receiver)
{
    const struct timespec until = clock_timespec_of(clock_monotonic_ns() + TURN_NS);
    while (sem_clockwait(&receiver->decoders, CLOCK_MONOTONIC, &until) < 0)
        if (errno != EINTR)
            return -EBUSY;
    return 0;
}

static int store(struct receiver *receiver, const struct spool_batch *batch)
{
    const size_t before = atomic_fetch_add(&receiver->waiting_bytes, batch->size);
    const int r = before + batch->size > WAITING_MAX_BYTES ? -EBUSY : spool_append(receiver->spool, batch);
    atomic_fetch_sub(&receiver->waiting_bytes, batch->size);
    return r;
}

static int receive(struct receiver *receiver, const struct listener_request *request, const struct otlp_signal *signal,
                   struct otlp_rows *rows)
{
    _cleanup_buf_ struct buf data = {0};
    struct spool_batch batch = {0};
    int r = wait_for_turn(receiver);
    if (r < 0)
        return r;
    r = decode(receiver, request, signal, rows, &batch.key) ?: gather_rows(rows, &data, &batch.rows);
    otlp_rows_clear(rows);
    sem_post(&receiver->decoders);
    if (r < 0 || !batch.rows)
        return r;
    batch.data = data.data;
    batch.size = data.size;
    return store(receiver, &batch);
}

void receiver_init(struct receiver *receiver, struct spool *spool, unsigned keep_days, uint64_t (*unix_ns)(void))
{
    *receiver = (struct receiver){.spool = spool, .keep_days = keep_days, .unix_ns = unix_ns};
    sem_init(&receiver->decoders, 0, RECEIVER_DECODERS);
    otlp_json_init();
}

enum MHD_Result receiver_answer(void *receiver, const struct listener_request *request)
{
    const struct otlp_signal *signal = NULL;
    _cleanup_otlp_rows_ struct otlp_rows rows = {0};
    for (size_t i = 0; i < array_size(signals); i++)
        if (strcmp(request->path, signals[i]->path) == 0)
            signal = signals[i];
    if (!signal)
        return reply_error(request, MHD_HTTP_NOT_FOUND,
                           "this receiver has /v1/traces, /v1/logs, /v1/metrics and /v1development/profiles");
    if (strcmp(request->method, "POST") != 0)
        return reply_error(request, MHD_HTTP_METHOD_NOT_ALLOWED, "only POST is supported");
    if (!is_type(http_header(request->connection, "Content-Type"), PROTOBUF) && !(is_json(request) && signal->json))
        return reply_error(request, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                           signal->json ? "Content-Type must be " PROTOBUF " or " JSON
                                        : "Content-Type must be " PROTOBUF);
    const int r = receive(receiver, request, signal, &rows);
    return r < 0 ? reply_failure(request, r) : reply_success(request, signal, &rows);
}
