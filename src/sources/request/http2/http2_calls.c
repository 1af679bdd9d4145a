/* See http2_calls.h. */
#include "sources/request/http2/http2_calls.h"

#include "model/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <uthash.h>

struct http2_call_count {
    struct call_key {
        uint64_t process;
        struct service_address server;
        char text[HTTP2_CALL_BYTES];
    } key;
    struct service_call_sums sums;
    UT_hash_handle hh;
};

static void forget_count(struct http2_calls *c, struct http2_call_count *count)
{
    HASH_DEL(c->counts, count);
    free(count);
}

void http2_calls_clear(struct http2_calls *c)
{
    struct http2_call_count *count, *next;
    HASH_ITER (hh, c->counts, count, next)
        forget_count(c, count);
}

/* The record's line is "POST /package.Service/Method HTTP/2". */
static void write_text(const struct request_record *r, char out[HTTP2_CALL_BYTES])
{
    const int method = (int)strcspn(r->line, " "), path = (int)strcspn(r->line + method + 1, " ");
    if (r->protocol == REQUEST_GRPC)
        snprintf(out, HTTP2_CALL_BYTES, "gRPC %.*s", r->flags & REQUEST_NO_PATH ? 4 : path,
                 r->flags & REQUEST_NO_PATH ? "call" : r->line + method + 1);
    else
        snprintf(out, HTTP2_CALL_BYTES, "HTTP %.*s", r->line[0] == '*' ? 7 : method,
                 r->line[0] == '*' ? "request" : r->line);
}

static struct service_address address_of(const struct request_record *r)
{
    struct service_address a = {.port = r->peer_port};
    if (r->peer_family == AF_INET6) {
        memcpy(a.address, r->peer_address, sizeof(a.address));
    } else {
        a.address[10] = a.address[11] = 0xff;
        memcpy(a.address + 12, r->peer_address, 4);
    }
    return a;
}

static struct http2_call_count *find_count(struct http2_calls *c, const struct call_key *key)
{
    struct http2_call_count *count;
    HASH_FIND(hh, c->counts, key, sizeof(*key), count);
    if (count || HASH_COUNT(c->counts) == HTTP2_CALL_COUNTS_MAX)
        return count;
    count = calloc(1, sizeof(*count));
    if (!count)
        return NULL;
    count->key = *key;
    HASH_ADD(hh, c->counts, key, sizeof(count->key), count);
    return count;
}

void http2_calls_add(struct http2_calls *c, uint64_t process, const struct request_record *r)
{
    const uint64_t place = c->count++ % HTTP2_CALLS_MAX;
    struct call_key key = {.process = process, .server = address_of(r)};
    write_text(r, key.text);
    c->calls[place].socket = r->socket;
    c->calls[place].start_ns = r->start_ns;
    c->calls[place].end_ns = r->h.time_ns;
    memcpy(c->calls[place].text, key.text, HTTP2_CALL_BYTES);
    struct http2_call_count *count = find_count(c, &key);
    if (!count) {
        c->uncounted++;
        return;
    }
    count->sums.durations[service_call_duration_bucket(r->duration_ns)]++;
    count->sums.wait_ns += r->duration_ns;
    count->sums.failed += request_is_failed(r->status);
}

void http2_calls_find(const struct http2_calls *c, uint64_t socket, uint64_t from_ns, uint64_t to_ns,
                      char out[HTTP2_CALL_BYTES])
{
    out[0] = '\0';
    for (size_t i = 0; i < HTTP2_CALLS_MAX; i++) {
        if (!socket || c->calls[i].socket != socket || c->calls[i].start_ns >= to_ns || c->calls[i].end_ns <= from_ns)
            continue;
        if (out[0] && strcmp(out, c->calls[i].text) != 0) {
            out[0] = '\0';
            return;
        }
        memcpy(out, c->calls[i].text, HTTP2_CALL_BYTES);
    }
}

void http2_calls_take(struct http2_calls *c, http2_calls_taker *take, void *context)
{
    struct http2_call_count *count, *next;
    HASH_ITER (hh, c->counts, count, next)
        if (take(context, count->key.process, &count->key.server, count->key.text, &count->sums))
            forget_count(c, count);
}
