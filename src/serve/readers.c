/* The connections and replies of an HTTP server; see readers.h. */
#include "serve/readers.h"

#include "base/clock.h"

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
    uint64_t origin;
    uint64_t since_ns; /* in this state */
};

struct readers {
    struct readers_options o;
    pthread_mutex_t lock;
    pthread_cond_t freed; /* memory of a reply */
    size_t open;
    uint64_t bytes;
    size_t count; /* of `all` */
    struct reader all[];
};

int readers_new(const struct readers_options *options, struct readers **ret)
{
    const size_t count = options->max + READERS_SPARE;
    struct readers *r = calloc(1, sizeof(*r) + count * sizeof(r->all[0]));
    if (!r)
        return -ENOMEM;
    r->o = *options;
    r->count = count;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->freed, NULL);
    *ret = r;
    return 0;
}

void readers_free(struct readers *r)
{
    if (!r)
        return;
    pthread_cond_destroy(&r->freed);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static void set_state(struct readers *r, struct reader *reader, enum reader_state state)
{
    reader->state = state;
    reader->since_ns = r->o.now_ns();
}

static bool is_open(const struct reader *reader)
{
    return reader->state == READER_WAITS || reader->state == READER_IS_ANSWERED;
}

static void close_reader(struct readers *r, struct reader *reader, enum connection_end end)
{
    shutdown(reader->socket, SHUT_RDWR); /* its thread closes it */
    reader->state = READER_IS_CLOSED;
    r->open--;
    if (r->o.ended)
        r->o.ended(r->o.context, end);
}

/* False: there was none. */
static bool close_overdue(struct readers *r, enum reader_state state, uint64_t after_ns, enum connection_end end)
{
    const uint64_t now_ns = r->o.now_ns();
    const size_t before = r->open;
    for (size_t i = 0; i < r->count; i++)
        if (r->all[i].state == state && now_ns - r->all[i].since_ns > after_ns)
            close_reader(r, &r->all[i], end);
    return r->open < before;
}

static size_t count_of_origin(const struct readers *r, uint64_t origin)
{
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++)
        count += is_open(&r->all[i]) && r->all[i].origin == origin;
    return count;
}

/* Whether `a` is closed rather than `b`. */
static bool gives_way(const struct readers *r, const struct reader *a, const struct reader *b)
{
    const size_t of_a = count_of_origin(r, a->origin), of_b = count_of_origin(r, b->origin);
    if (of_a != of_b)
        return of_a > of_b;
    return a->state != b->state ? a->state == READER_WAITS : a->since_ns < b->since_ns;
}

/* `origin` NULL: of any client. */
static void close_one(struct readers *r, const uint64_t *origin, enum connection_end end)
{
    struct reader *closed = NULL;
    for (size_t i = 0; i < r->count; i++)
        if (is_open(&r->all[i]) && (!origin || r->all[i].origin == *origin) &&
            (!closed || gives_way(r, &r->all[i], closed)))
            closed = &r->all[i];
    close_reader(r, closed, end);
}

static struct reader *find_free(struct readers *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->all[i].state == READER_NONE)
            return &r->all[i];
    return NULL;
}

struct reader *readers_add(struct readers *r, int socket, uint64_t origin)
{
    pthread_mutex_lock(&r->lock);
    if (count_of_origin(r, origin) >= r->o.per_origin)
        close_one(r, &origin, CONNECTION_END_ADDRESS_LIMIT);
    else if (r->open >= r->o.max)
        close_one(r, NULL, CONNECTION_END_LIMIT);
    struct reader *added = find_free(r);
    if (added) {
        added->socket = socket;
        added->origin = origin;
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

void reader_stalled(struct readers *r, struct reader *reader)
{
    pthread_mutex_lock(&r->lock);
    if (reader->state == READER_IS_ANSWERED)
        close_reader(r, reader, CONNECTION_END_SLOW_READER);
    pthread_mutex_unlock(&r->lock);
}

void readers_tick(struct readers *r)
{
    pthread_mutex_lock(&r->lock);
    close_overdue(r, READER_WAITS, r->o.request_ns, CONNECTION_END_NO_REQUEST);
    close_overdue(r, READER_IS_ANSWERED, r->o.reply_ns, CONNECTION_END_SLOW_READER);
    pthread_mutex_unlock(&r->lock);
}

static size_t count_answered(const struct readers *r, uint64_t origin)
{
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++)
        count += r->all[i].state == READER_IS_ANSWERED && r->all[i].origin == origin;
    return count;
}

/* Ends the longest reply to the client with most of them. False: no client has more than `origin`. */
static bool close_one_of_more(struct readers *r, uint64_t origin)
{
    struct reader *closed = NULL;
    size_t most = count_answered(r, origin);
    for (size_t i = 0; i < r->count; i++) {
        struct reader *reader = &r->all[i];
        const size_t count = reader->state == READER_IS_ANSWERED ? count_answered(r, reader->origin) : 0;
        if (count > most || (closed && count == most && reader->since_ns < closed->since_ns)) {
            closed = reader;
            most = count;
        }
    }
    if (closed)
        close_reader(r, closed, CONNECTION_END_SLOW_READER);
    return closed;
}

bool readers_may_answer(struct readers *r, const struct reader *reader)
{
    const struct timespec until = clock_timespec_of(clock_monotonic_ns() + r->o.free_ns);
    pthread_mutex_lock(&r->lock);
    bool is_freed = r->bytes >= r->o.answers_max_bytes &&
                    close_overdue(r, READER_IS_ANSWERED, r->o.slow_ns, CONNECTION_END_SLOW_READER);
    while (r->bytes >= r->o.answers_max_bytes) {
        is_freed = close_one_of_more(r, reader->origin) || is_freed;
        if (!is_freed || pthread_cond_clockwait(&r->freed, &r->lock, CLOCK_MONOTONIC, &until) != 0)
            break;
    }
    const bool may = r->bytes < r->o.answers_max_bytes;
    pthread_mutex_unlock(&r->lock);
    return may;
}

void readers_hold(struct readers *r, int64_t bytes)
{
    pthread_mutex_lock(&r->lock);
    r->bytes += (uint64_t)bytes;
    if (bytes < 0)
        pthread_cond_broadcast(&r->freed);
    pthread_mutex_unlock(&r->lock);
    r->o.hold(r->o.context, bytes);
}
