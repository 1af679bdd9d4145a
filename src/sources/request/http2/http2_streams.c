/* See http2_streams.h. */
#include "sources/request/http2/http2_streams.h"

#include "probes/common/hash.h"

#include <stdlib.h>

static size_t bucket_of(uint64_t connection, uint32_t id)
{
    return hash_mix(hash_mix(0, connection), id) % HTTP2_STREAM_BUCKETS;
}

struct http2_stream *http2_streams_find(const struct http2_streams *t, uint64_t connection, uint32_t id)
{
    struct http2_stream *s = t->buckets[bucket_of(connection, id)];
    while (s && (s->id != id || s->connection != connection))
        s = s->next_of_bucket;
    return s;
}

void http2_stream_link(struct http2_stream **list, struct http2_stream *s)
{
    s->next = *list;
    if (s->next)
        s->next->link = &s->next;
    s->link = list;
    *list = s;
}

void http2_stream_unlink(struct http2_stream *s)
{
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
}

static struct http2_stream *take_unused(struct http2_streams *t)
{
    struct http2_stream *s = t->unused;
    if (!s)
        return malloc(sizeof(*s));
    t->unused = s->next_of_bucket;
    t->unused_count--;
    return s;
}

struct http2_stream *http2_streams_make(struct http2_streams *t, uint64_t connection, uint32_t id,
                                        struct http2_stream **list)
{
    struct http2_stream *s = t->count < t->max ? take_unused(t) : NULL;
    if (!s)
        return NULL;
    struct http2_stream **bucket = &t->buckets[bucket_of(connection, id)];
    *s = (struct http2_stream){.id = id, .connection = connection, .grpc_status = HTTP2_NO_GRPC_STATUS};
    s->next_of_bucket = *bucket;
    *bucket = s;
    http2_stream_link(list, s);
    t->count++;
    return s;
}

void http2_streams_hide(struct http2_streams *t, struct http2_stream *s)
{
    struct http2_stream **at = &t->buckets[bucket_of(s->connection, s->id)];
    while (*at != s)
        at = &(*at)->next_of_bucket;
    *at = s->next_of_bucket;
    http2_stream_unlink(s);
}

void http2_streams_free(struct http2_streams *t, struct http2_stream *s)
{
    s->next_of_bucket = t->unused;
    t->unused = s;
    t->unused_count++;
    t->count--;
}

void http2_streams_clear(struct http2_streams *t)
{
    while (t->unused) {
        struct http2_stream *s = t->unused;
        t->unused = s->next_of_bucket;
        free(s);
    }
    t->unused_count = 0;
}
