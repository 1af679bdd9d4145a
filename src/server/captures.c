/* A list of captures in the order of their requests; see captures.h. */
#include "server/captures.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct captures {
    pthread_mutex_t lock;
    size_t count;
    struct capture list[CAPTURES_MAX];
};

int captures_new(struct captures **ret)
{
    struct captures *c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    pthread_mutex_init(&c->lock, NULL);
    *ret = c;
    return 0;
}

void captures_free(struct captures *c)
{
    if (!c)
        return;
    pthread_mutex_destroy(&c->lock);
    free(c);
}

int captures_add(struct captures *c, const struct capture *capture)
{
    pthread_mutex_lock(&c->lock);
    const bool has_space = c->count < CAPTURES_MAX;
    if (has_space)
        c->list[c->count++] = *capture;
    pthread_mutex_unlock(&c->lock);
    return has_space ? 0 : -EBUSY;
}

bool captures_next(struct captures *c, const char *host, struct capture *ret)
{
    const struct capture *first = NULL;
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->count && !first; i++)
        if (strcmp(c->list[i].host, host) == 0)
            first = &c->list[i];
    const bool found = first && !first->state;
    if (found)
        *ret = *first;
    pthread_mutex_unlock(&c->lock);
    return found;
}

bool captures_find(struct captures *c, const char *host, const char *id, uint32_t state, struct capture *ret)
{
    bool found = false;
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->count && !found; i++) {
        found = strcmp(c->list[i].id, id) == 0 && strcmp(c->list[i].host, host) == 0 && c->list[i].state != state;
        if (found)
            *ret = c->list[i];
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

/* Under the lock. */
static void remove_capture(struct captures *c, size_t i)
{
    c->count--;
    memmove(&c->list[i], &c->list[i + 1], (c->count - i) * sizeof(c->list[0]));
}

void captures_set_state(struct captures *c, const char *id, uint32_t state)
{
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->count; i++) {
        if (strcmp(c->list[i].id, id) != 0)
            continue;
        c->list[i].state = state;
        if (state != CAPTURE_RUNNING)
            remove_capture(c, i);
        break;
    }
    pthread_mutex_unlock(&c->lock);
}

bool captures_expire(struct captures *c, uint64_t now_ns, struct capture *ret)
{
    pthread_mutex_lock(&c->lock);
    const bool is_over = c->count && now_ns - c->list[0].asked_ns >= CAPTURES_FORGET_NS;
    if (is_over) {
        *ret = c->list[0];
        remove_capture(c, 0);
    }
    pthread_mutex_unlock(&c->lock);
    return is_over;
}
