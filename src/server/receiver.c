/* Requests of OTLP on their way to the spool; see receiver.h. */
#include "server/receiver.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/protobuf.h"
#include "serve/origin.h"
#include "server/batch.h"
#include "server/inflate.h"
#include "server/otlp_json.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

#define DAY_NS            (86400ull * 1000000000)
#define TURN_NS           2000000000ull       /* that a request waits for a decoder */
#define WAITING_MAX_BYTES ((size_t)128 << 20) /* of decoded rows that wait for the disk */

enum { EXPORT_PARTIAL_SUCCESS = 1, PARTIAL_REJECTED = 1, PARTIAL_MESSAGE = 2 };

/* A retry has the same bytes, after decompression, and comes from the same client. */
static struct batch_key key_of(const struct receiver_request *request, const struct buf *message)
{
    const char *path = request->signal->path;
    const XXH128_hash_t hash = XXH3_128bits_withSeed(
        message->data, message->size, origin_of_address(request->client) ^ XXH3_64bits(path, strlen(path)));
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

/* A segment that is set aside may have rows that others refer to. */
static void check_known_rows(struct receiver *receiver)
{
    const unsigned long long set_aside = spool_statistics(receiver->spool).set_aside;
    if (atomic_exchange(&receiver->set_aside, set_aside) != set_aside)
        known_rows_forget(receiver->known);
}

static int decode(struct receiver *receiver, const struct receiver_request *request, struct otlp_rows *rows,
                  struct batch_key *ret_key)
{
    _cleanup_buf_ struct buf message = {0};
    const uint64_t now_ns = receiver->unix_ns();
    int r = inflate_body(&message, request->encoding, request->body.data, request->body.size, RECEIVER_BODY_MAX_BYTES);
    if (r < 0)
        return r;
    rows->from_ns = now_ns - receiver->keep_days * DAY_NS;
    rows->to_ns = now_ns + DAY_NS;
    rows->known = receiver->known;
    *ret_key = key_of(request, &message);
    if (request->is_json) {
        _cleanup_buf_ struct buf text = message;
        message = (struct buf){.max_bytes = RECEIVER_BODY_MAX_BYTES};
        r = otlp_json_to_protobuf(text.data ? text.data : "", text.size, request->signal->json, &message);
    }
    return r < 0 ? r : request->signal->decode(cursor_make(message.data, message.size), rows);
}

static int wait_for_turn(struct receiver *receiver)
{
    const struct timespec until = clock_timespec_of(clock_monotonic_ns() + TURN_NS);
    while (sem_clockwait(&receiver->decoders, CLOCK_MONOTONIC, &until) < 0)
        if (errno != EINTR)
            return -EBUSY;
    return 0;
}

static int append_batch(struct receiver *receiver, const struct spool_batch *batch)
{
    const size_t before = atomic_fetch_add(&receiver->waiting_bytes, batch->size);
    const int r = before + batch->size > WAITING_MAX_BYTES ? -EBUSY : spool_append(receiver->spool, batch);
    atomic_fetch_sub(&receiver->waiting_bytes, batch->size);
    return r;
}

static int store_request(struct receiver *receiver, const struct receiver_request *request, struct otlp_rows *rows)
{
    _cleanup_buf_ struct buf data = {0}, stored = {0};
    struct spool_batch batch = {0};
    int r = wait_for_turn(receiver);
    if (r < 0)
        return r;
    check_known_rows(receiver);
    r = decode(receiver, request, rows, &batch.key) ?: gather_rows(rows, &data, &batch.rows);
    stored = rows->stored;
    rows->stored = (struct buf){0};
    otlp_rows_clear(rows);
    sem_post(&receiver->decoders);
    if (r < 0 || !batch.rows)
        return r;
    batch.data = data.data;
    batch.size = data.size;
    r = append_batch(receiver, &batch);
    if (r == 0) /* the rows of a repeated batch are not stored: `stored` may have others than the first time */
        known_rows_add(receiver->known, (const uint64_t *)(const void *)stored.data, stored.size / sizeof(uint64_t));
    return r;
}

void receiver_init(struct receiver *receiver, struct spool *spool, struct known_rows *known, unsigned keep_days,
                   uint64_t (*unix_ns)(void))
{
    *receiver = (struct receiver){.spool = spool, .known = known, .keep_days = keep_days, .unix_ns = unix_ns};
    sem_init(&receiver->decoders, 0, RECEIVER_DECODERS);
    otlp_json_init();
}

int receiver_store(struct receiver *receiver, const struct receiver_request *request, struct receiver_result *ret)
{
    struct otlp_rows rows = {0};
    const int r = store_request(receiver, request, &rows);
    ret->rejected = rows.rejected;
    memcpy(ret->why, rows.why, sizeof(ret->why));
    if (r < 0 && receiver_failure(r).kind == RECEIVER_BROKEN)
        log_errno(r, "a batch cannot be stored");
    return r;
}

int receiver_store_row(struct receiver *receiver, enum table table, const struct buf *row)
{
    _cleanup_buf_ struct buf data = {0};
    struct spool_batch batch = {.rows = 1};
    batch_put_rows(&data, table, row);
    int r = buf_error(row) ?: buf_error(&data);
    if (r < 0)
        return r;
    const XXH128_hash_t hash = XXH3_128bits(data.data, data.size);
    memcpy(batch.key.bytes, &hash, sizeof(batch.key.bytes));
    batch.data = data.data;
    batch.size = data.size;
    r = append_batch(receiver, &batch);
    return r < 0 ? r : 0;
}

void receiver_put_response(struct buf *out, const struct receiver_result *result)
{
    _cleanup_buf_ struct buf partial = {0};
    if (!result->rejected)
        return;
    protobuf_put_number(&partial, PARTIAL_REJECTED, result->rejected);
    protobuf_put_bytes(&partial, PARTIAL_MESSAGE, result->why, strlen(result->why));
    protobuf_put_message(out, EXPORT_PARTIAL_SUCCESS, &partial);
}

struct receiver_failure receiver_failure(int error)
{
    switch (error) {
    case -EBADMSG:
        return (struct receiver_failure){RECEIVER_INVALID, "the body is not a valid message of this signal"};
    case -ELOOP:
        return (struct receiver_failure){RECEIVER_INVALID, "attribute values are nested too deeply"};
    case -EFBIG:
        return (struct receiver_failure){RECEIVER_TOO_LARGE, "the body is too large: send smaller batches"};
    case -EOPNOTSUPP:
        return (struct receiver_failure){RECEIVER_UNKNOWN_ENCODING, "the encoding must be gzip, zstd or identity"};
    case -EBUSY:
        return (struct receiver_failure){RECEIVER_BUSY, "too many requests at once: try again later"};
    case -ENOSPC:
        return (struct receiver_failure){RECEIVER_FULL, "the server's spool is full: try again later"};
    default:
        return (struct receiver_failure){RECEIVER_BROKEN, "the batch cannot be stored now: try again later"};
    }
}
