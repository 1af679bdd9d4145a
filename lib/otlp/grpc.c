/* See grpc.h. */
#include "grpc.h"

#include "gzip.h"
#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DETAILS_MAX 4096 /* bytes of base64 */

/* https://grpc.io/docs/guides/status-codes/: number, name, and whether OTLP allows a retry. */
#define STATUSES(X)                                                                                                    \
    X(0, OK, false)                                                                                                    \
    X(1, CANCELLED, true)                                                                                              \
    X(2, UNKNOWN, false)                                                                                               \
    X(3, INVALID_ARGUMENT, false)                                                                                      \
    X(4, DEADLINE_EXCEEDED, true)                                                                                      \
    X(5, NOT_FOUND, false)                                                                                             \
    X(6, ALREADY_EXISTS, false)                                                                                        \
    X(7, PERMISSION_DENIED, false)                                                                                     \
    X(8, RESOURCE_EXHAUSTED, false) /* retried only with RetryInfo */                                                  \
    X(9, FAILED_PRECONDITION, false)                                                                                   \
    X(10, ABORTED, true)                                                                                               \
    X(11, OUT_OF_RANGE, true)                                                                                          \
    X(12, UNIMPLEMENTED, false)                                                                                        \
    X(13, INTERNAL, false)                                                                                             \
    X(14, UNAVAILABLE, true)                                                                                           \
    X(15, DATA_LOSS, true)                                                                                             \
    X(16, UNAUTHENTICATED, false)

enum {
#define X(number, name, again) STATUS_##name = number,
    STATUSES(X)
#undef X
        STATUS_COUNT
};

static const struct {
    const char *name;
    bool again;
} statuses[STATUS_COUNT] = {
#define X(number, name, again) [number] = {#name, again},
    STATUSES(X)
#undef X
};

int otlp_grpc_put_prefix(unsigned char ret[OTLP_GRPC_PREFIX_BYTES], bool is_compressed, size_t size)
{
    if (size > UINT32_MAX)
        return -E2BIG;
    ret[0] = is_compressed;
    for (int i = 0; i < 4; i++)
        ret[1 + i] = (unsigned char)(size >> (24 - 8 * i));
    return 0;
}

/* --- headers and trailers -------------------------------------------------------------------- */

struct text {
    const char *at;
    size_t size;
};

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

/* Decodes percent-encoding; invalid sequences are kept. */
static void read_message(struct otlp_grpc_reply *reply, struct text value)
{
    char words[OTLP_PARTIAL_WHY_SIZE];
    size_t used = 0;
    for (size_t i = 0; i < value.size && used < sizeof(words); i++) {
        char c = value.at[i];
        int high = -1, low = -1;
        if (c == '%' && value.size - i > 2) {
            high = hex_digit(value.at[i + 1]);
            low = hex_digit(value.at[i + 2]);
        }
        if (high >= 0 && low >= 0) {
            c = (char)(high << 4 | low);
            i += 2;
        }
        words[used++] = c ? c : ' ';
    }
    otlp_keep_words(reply->message, words, used);
}

static void read_status(struct otlp_grpc_reply *reply, struct text value)
{
    reply->has_status = true;
    reply->status = STATUS_UNKNOWN; /* as for unknown codes, by specification */
    uint32_t status = 0;
    for (size_t i = 0; i < value.size; i++) {
        if (value.at[i] < '0' || value.at[i] > '9' || i == 3)
            return;
        status = status * 10 + (uint32_t)(value.at[i] - '0');
    }
    if (value.size > 0 && status < STATUS_COUNT)
        reply->status = status;
}

/* Decodes base64, with or without padding. False: invalid. */
static bool read_base64(struct text value, unsigned char *ret, size_t *ret_size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    size_t count = 0, used = 0;
    while (value.size > 0 && value.at[value.size - 1] == '=')
        value.size--;
    for (; count < value.size; count++) {
        const char *digit = value.at[count] ? strchr(digits, value.at[count]) : NULL;
        if (!digit)
            return false;
        bits = bits << 6 | (uint32_t)(digit - digits);
        if (count % 4 > 0)
            ret[used++] = (unsigned char)(bits >> (6 - 2 * (count % 4)));
    }
    *ret_size = used;
    return count % 4 != 1;
}

/* google.rpc: Status.details, Any.type_url and .value, RetryInfo.retry_delay, Duration.seconds and .nanos. */
enum {
    STATUS_DETAILS = 3,
    ANY_TYPE_URL = 1,
    ANY_VALUE = 2,
    RETRY_INFO_DELAY = 1,
    DURATION_SECONDS = 1,
    DURATION_NANOS = 2
};

static void read_retry_info(struct otlp_grpc_reply *reply, struct otlp_bytes info)
{
    struct otlp_field f;
    uint64_t seconds = 0, nanos = 0;
    reply->has_retry = true;
    while (otlp_read_field(&info, &f)) {
        struct otlp_bytes duration = f.bytes;
        if (f.number != RETRY_INFO_DELAY || f.wire != OTLP_BYTES)
            continue;
        while (otlp_read_field(&duration, &f))
            if (f.wire == OTLP_VARINT && (f.number == DURATION_SECONDS || f.number == DURATION_NANOS))
                *(f.number == DURATION_SECONDS ? &seconds : &nanos) = f.integer;
    }
    if (seconds <= UINT32_MAX / 1000 - 1 && nanos < 1000000000) /* ignore negative and excessive delays */
        reply->retry_after_ms = (uint32_t)(seconds * 1000 + nanos / 1000000);
}

static void read_details(struct otlp_grpc_reply *reply, struct text value)
{
    static const char type[] = "google.rpc.RetryInfo";
    unsigned char data[DETAILS_MAX];
    size_t size;
    struct otlp_field f;
    if (value.size > sizeof(data) || !read_base64(value, data, &size))
        return;
    struct otlp_bytes status = {data, data + size};
    while (otlp_read_field(&status, &f)) {
        struct otlp_bytes any = f.bytes, info = {0};
        bool is_info = false;
        if (f.number != STATUS_DETAILS || f.wire != OTLP_BYTES)
            continue;
        while (otlp_read_field(&any, &f)) {
            const size_t length = sizeof(type) - 1;
            if (f.number == ANY_TYPE_URL && f.wire == OTLP_BYTES)
                is_info = (size_t)(f.bytes.end - f.bytes.at) > length && f.bytes.end[-(long)length - 1] == '/' &&
                          memcmp(f.bytes.end - length, type, length) == 0;
            else if (f.number == ANY_VALUE && f.wire == OTLP_BYTES)
                info = f.bytes;
        }
        if (is_info)
            read_retry_info(reply, info);
    }
}

static bool is_named(struct text name, const char *wanted)
{
    return name.size == strlen(wanted) && strncasecmp(name.at, wanted, name.size) == 0;
}

static void read_encoding(struct otlp_grpc_reply *reply, struct text value)
{
    reply->encoding[0] = '\0';
    if (value.size < sizeof(reply->encoding)) {
        memcpy(reply->encoding, value.at, value.size);
        reply->encoding[value.size] = '\0';
    }
}

void otlp_grpc_read_header(struct otlp_grpc_reply *reply, const char *line, size_t size)
{
    const char *colon = memchr(line, ':', size);
    if (size > 5 && memcmp(line, "HTTP/", 5) == 0)
        *reply = (struct otlp_grpc_reply){0};
    if (!colon)
        return;
    struct text name = {line, (size_t)(colon - line)}, value = {colon + 1, (size_t)(line + size - colon - 1)};
    while (value.size > 0 && (value.at[0] == ' ' || value.at[0] == '\t'))
        value.at++, value.size--;
    while (value.size > 0 && strchr(" \t\r\n", value.at[value.size - 1]))
        value.size--;
    if (is_named(name, "grpc-status"))
        read_status(reply, value);
    else if (is_named(name, "grpc-message"))
        read_message(reply, value);
    else if (is_named(name, "grpc-status-details-bin"))
        read_details(reply, value);
    else if (is_named(name, "content-type"))
        reply->is_grpc = value.size >= 16 && strncasecmp(value.at, "application/grpc", 16) == 0;
    else if (is_named(name, "grpc-encoding"))
        read_encoding(reply, value);
}

/* --- verdicts --------------------------------------------------------------------------------- */

void otlp_http_judge(unsigned status, struct otlp_answer *answer)
{
    const bool is_busy = status == 429 || status == 502 || status == 503 || status == 504;
    answer->verdict = status >= 200 && status < 300 ? OTLP_ACCEPTED : is_busy ? OTLP_BUSY : OTLP_REFUSED;
    if (answer->verdict != OTLP_ACCEPTED)
        snprintf(answer->why, sizeof(answer->why), "HTTP status %u", status);
}

/* The response is from a proxy or a server without gRPC; or its trailers are missing, which libcurl does not always
 * detect. */
static void judge_without_status(const struct otlp_grpc_reply *reply, unsigned http_status, struct otlp_answer *answer)
{
    otlp_http_judge(http_status, answer);
    if (answer->verdict == OTLP_ACCEPTED)
        answer->verdict = reply->is_grpc ? OTLP_BUSY : OTLP_REFUSED;
    snprintf(answer->why, sizeof(answer->why), "HTTP status %u without a status of gRPC", http_status);
}

void otlp_grpc_judge(const struct otlp_grpc_reply *reply, unsigned http_status, struct otlp_answer *answer)
{
    if (!reply->has_status) {
        judge_without_status(reply, http_status, answer);
        return;
    }
    const bool again =
        statuses[reply->status].again || (reply->status == STATUS_RESOURCE_EXHAUSTED && reply->has_retry);
    answer->verdict = reply->status == STATUS_OK ? OTLP_ACCEPTED : again ? OTLP_BUSY : OTLP_REFUSED;
    if (again && reply->has_retry)
        answer->retry_after_ms = reply->retry_after_ms;
    if (answer->verdict != OTLP_ACCEPTED)
        snprintf(answer->why, sizeof(answer->why), "gRPC status %s%s%s", statuses[reply->status].name,
                 reply->message[0] ? ": " : "", reply->message);
}

static int unpack(const struct otlp_grpc_reply *reply, const struct otlp_encoding *encoding, const char *data,
                  size_t size, char *room, size_t room_size, size_t *ret_size)
{
    if (strcasecmp(reply->encoding, "gzip") == 0)
        return otlp_unpack(data, size, room, room_size, ret_size);
    if (encoding && strcasecmp(reply->encoding, encoding->name) == 0)
        return encoding->unpack(data, size, room, room_size, ret_size);
    return -EBADMSG;
}

const char *otlp_grpc_message(const struct otlp_grpc_reply *reply, const struct otlp_encoding *encoding,
                              const char *body, size_t size, char *room, size_t room_size, size_t *ret_size)
{
    size_t length = 0;
    if (size < OTLP_GRPC_PREFIX_BYTES)
        return NULL;
    for (int i = 1; i < OTLP_GRPC_PREFIX_BYTES; i++)
        length = length << 8 | (unsigned char)body[i];
    if (length > size - OTLP_GRPC_PREFIX_BYTES)
        return NULL;
    if (body[0] == 0) {
        *ret_size = length;
        return body + OTLP_GRPC_PREFIX_BYTES;
    }
    return unpack(reply, encoding, body + OTLP_GRPC_PREFIX_BYTES, length, room, room_size, ret_size) == 0 ? room : NULL;
}
