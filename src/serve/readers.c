/* The connections and replies of the page; see readers.h. */
#include "serve/readers.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

enum reader_state {
    READER_NONE,
    READER_WAITS, /* for a request */
    READER_IS_ANSWERED,
    READER_IS_CLOSED, /* its socket is shut down; its thread will remove it */
};

struct reader {
    enum reader_state state;
    int socket;
    uint64_t since_ns; /* in this state */
};

struct readers {
    struct readers_options o;
    pthread_mutex_t lock;
    struct reader all[READERS_MAX + READERS_SPARE];
    size_t open;
    uint64_t bytes;
};

int readers_new(const struct readers_options *options, struct readers **ret)
{
    struct readers *r = calloc(1, sizeof(*r));
    if (!r)
        return -ENOMEM;
    r->o = *options;
    pthread_mutex_init(&r->lock, NULL);
    *ret = r;
    return 0;
}

void readers_free(struct readers *r)
{
    if (!r)
        return;
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static void set_state(struct readers *r, struct reader *reader, enum reader_state state)
{
    reader->state = state;
    reader->since_ns = r->o.now_ns();
}

static void close_reader(struct readers *r, struct reader *reader)
{
    shutdown(reader->socket, SHUT_RDWR); /* its thread closes it */
    reader->state = READER_IS_CLOSED;
    r->open--;
}

static struct reader *find_oldest(struct readers *r, enum reader_state state)
{
    struct reader *oldest = NULL;
    for (size_t i = 0; i < array_size(r->all); i++)
        if (r->all[i].state == state && (!oldest || r->all[i].since_ns < oldest->since_ns))
            oldest = &r->all[i];
    return oldest;
}

struct reader *readers_add(struct readers *r, int socket)
{
    pthread_mutex_lock(&r->lock);
    if (r->open >= READERS_MAX)
        close_reader(r, find_oldest(r, READER_WAITS) ?: find_oldest(r, READER_IS_ANSWERED));
    struct reader *added = find_oldest(r, READER_NONE);
    if (added) {
        added->socket = socket;
        set_state(r, added, READER_WAITS);
        r->open++;
    }
    pthread_mutex_unlock(&r->lock);
    return added;
}

void readers_remove(struct readers *r, struct reader *reader)
{
    pthread_mutex_lock(&r->lock);
    if (reader->state != READER_IS_CLOSED)
        r->open--;
    set_state(r, reader, READER_NONE);
    pthread_mutex_unlock(&r->lock);
}

static void change_state(struct readers *r, struct reader *reader, enum reader_state state)
{
    pthread_mutex_lock(&r->lock);
    if (reader->state != READER_IS_CLOSED)
        set_state(r, reader, state);
    pthread_mutex_unlock(&r->lock);
}

void reader_asked(struct readers *r, struct reader *reader)
{
    change_state(r, reader, READER_IS_ANSWERED);
}

void reader_answered(struct readers *r, struct reader *reader)
{
    change_state(r, reader, READER_WAITS);
}

static void close_slow(struct readers *r)
{
    const uint64_t now_ns = r->o.now_ns();
    for (size_t i = 0; i < array_size(r->all); i++)
        if (r->all[i].state == READER_IS_ANSWERED && now_ns - r->all[i].since_ns > r->o.slow_ns)
            close_reader(r, &r->all[i]);
}

bool readers_may_answer(struct readers *r)
{
    pthread_mutex_lock(&r->lock);
    const bool may = r->bytes < r->o.answers_max_bytes;
    if (!may)
        close_slow(r);
    pthread_mutex_unlock(&r->lock);
    return may;
}

void readers_hold(struct readers *r, int64_t bytes)
{
    pthread_mutex_lock(&r->lock);
    r->bytes += (uint64_t)bytes;
    pthread_mutex_unlock(&r->lock);
    r->o.hold(r->o.context, bytes);
}
