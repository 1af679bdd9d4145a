/* A simulated receiver, clock and pauses for tests of the senders: no socket, no thread, no sleep. Time passes only
 * during a post or a pause. Header only: each test is a program of its own. */
#pragma once

#include "otlp/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIMULATION_POSTS_MAX 512
#define MS                   1000000ull
#define SECOND               (1000 * MS)

/* The receiver's answer to a post. All zeros: accepts it. */
struct simulated_answer {
    int status;              /* of HTTP; 0: 200; -errno: no answer */
    uint32_t retry_after_ms; /* as the transport reads it from Retry-After or RetryInfo */
    bool hangs;              /* no answer until the post is ended */
    const char *body;        /* of an accepted post */
    size_t body_size;
};

struct simulation {
    uint64_t now_ns, closed_ns;
    uint64_t close_at_ns;    /* when the shutdown begins; 0: never */
    bool attempts_end_early; /* `pause` returns false at shutdown, as for profiles; otherwise it is only cut short, as
                              * for traces */

    const struct simulated_answer *script; /* one per post, the last one for all later ones; NULL: accepts all */
    size_t script_count;
    uint64_t post_ns; /* that a post takes */

    void (*each_second)(struct simulation *s); /* while time passes */
    void (*close)(struct simulation *s);       /* at close_at_ns; NULL: sets closed_ns */
    void *argument;

    struct otlp_transport_options options; /* of the last connection */
    unsigned connections;
    size_t posts;
    struct {
        uint64_t at_ns;
        void *body;
        size_t size;
    } post[SIMULATION_POSTS_MAX];
};

static inline uint64_t simulation_now_ns(void *argument)
{
    return ((struct simulation *)argument)->now_ns;
}

static inline uint64_t simulation_closed_ns(void *argument)
{
    return ((struct simulation *)argument)->closed_ns;
}

/* Advances the clock to `end_ns`, or until `is_over`. */
static inline void simulation_pass(struct simulation *s, uint64_t end_ns, bool (*is_over)(struct simulation *s))
{
    while (s->now_ns < end_ns && !(is_over && is_over(s))) {
        const uint64_t second_ns = (s->now_ns / SECOND + 1) * SECOND;
        uint64_t next_ns = end_ns < second_ns ? end_ns : second_ns;
        if (s->close_at_ns > s->now_ns && s->close_at_ns < next_ns)
            next_ns = s->close_at_ns;
        s->now_ns = next_ns;
        if (s->now_ns == second_ns && s->each_second)
            s->each_second(s);
        if (s->now_ns == s->close_at_ns) {
            s->closed_ns = s->now_ns;
            if (s->close)
                s->close(s);
        }
    }
}

static inline bool simulation_is_closed(struct simulation *s)
{
    return s->closed_ns != 0;
}

static inline bool simulation_pause(void *argument, unsigned ms)
{
    struct simulation *s = argument;
    simulation_pass(s, s->now_ns + ms * MS, s->closed_ns && !s->attempts_end_early ? NULL : simulation_is_closed);
    return !(s->closed_ns && s->attempts_end_early);
}

static inline int simulation_open(const struct otlp_transport_options *o, void **ret_connection, char *why,
                                  size_t why_size)
{
    struct simulation *s = NULL;
    if (sscanf(o->url, "http://%p", (void **)&s) != 1) {
        snprintf(why, why_size, "not a simulation");
        return -EINVAL;
    }
    s->options = *o;
    s->connections++;
    *ret_connection = s;
    return 0;
}

/* Blocks until the sender or its timeout ends the post. */
static inline int simulation_hang(struct simulation *s, struct otlp_answer *ret_answer)
{
    const uint64_t end_ns = s->now_ns + s->options.timeout_ms * MS;
    while (s->now_ns < end_ns && !s->options.is_overdue(s->options.argument))
        simulation_pass(s, s->now_ns + 100 * MS < end_ns ? s->now_ns + 100 * MS : end_ns, NULL);
    snprintf(ret_answer->why, sizeof(ret_answer->why), "no answer");
    return s->now_ns < end_ns ? -ECANCELED : -ETIMEDOUT;
}

static inline void simulation_keep_post(struct simulation *s, const void *data, size_t size)
{
    if (s->posts == SIMULATION_POSTS_MAX)
        abort();
    s->post[s->posts].at_ns = s->now_ns;
    s->post[s->posts].body = malloc(size + 1);
    s->post[s->posts].size = size;
    if (!s->post[s->posts].body)
        abort();
    memcpy(s->post[s->posts++].body, data, size);
}

static inline int simulation_post(void *connection, const void *data, size_t size, struct otlp_answer *ret_answer)
{
    static const struct simulated_answer accept;
    struct simulation *s = connection;
    const struct simulated_answer *a =
        !s->script_count ? &accept : &s->script[s->posts < s->script_count ? s->posts : s->script_count - 1];
    simulation_keep_post(s, data, size);
    if (a->hangs)
        return simulation_hang(s, ret_answer);
    simulation_pass(s, s->now_ns + s->post_ns, NULL);
    if (a->status < 0) {
        snprintf(ret_answer->why, sizeof(ret_answer->why), "%s", strerror(-a->status));
        return a->status;
    }
    *ret_answer = (struct otlp_answer){
        .retry_after_ms = a->retry_after_ms, .body = a->body, .body_size = a->body_size, .sent_bytes = size};
    ret_answer->verdict = !a->status || a->status == 200         ? OTLP_ACCEPTED
                          : a->status == 429 || a->status >= 502 ? OTLP_BUSY
                                                                 : OTLP_REFUSED;
    if (ret_answer->verdict != OTLP_ACCEPTED)
        snprintf(ret_answer->why, sizeof(ret_answer->why), "HTTP status %d", a->status);
    return 0;
}

static inline void simulation_close(void *connection)
{
    ((struct simulation *)connection)->connections--;
}

static const struct otlp_transport simulation_transport = {OTLP_TRANSPORT_VERSION, simulation_open, simulation_post,
                                                           simulation_close};

/* URL that selects this simulation in the transport. */
static inline void simulation_url(const struct simulation *s, char ret_url[64])
{
    snprintf(ret_url, 64, "http://%p", (const void *)s);
}

static inline bool simulation_posts_are_equal(const struct simulation *s, size_t a, size_t b)
{
    return s->post[a].size == s->post[b].size && memcmp(s->post[a].body, s->post[b].body, s->post[a].size) == 0;
}

static inline uint64_t simulation_between_ms(const struct simulation *s, size_t a, size_t b)
{
    return (s->post[b].at_ns - s->post[a].at_ns) / MS;
}

static inline void simulation_fini(struct simulation *s)
{
    while (s->posts)
        free(s->post[--s->posts].body);
}
