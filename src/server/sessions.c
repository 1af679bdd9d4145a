/* The table of sessions; see sessions.h. */
#include "server/sessions.h"

#include "base/hex.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define IDLE_NS (SESSION_IDLE_H * 3600ull * 1000000000)

struct session {
    unsigned char id[SHA256_BYTES]; /* its hash */
    unsigned char token[SHA256_BYTES];
    uint64_t used_ns; /* 0: this place is free */
};

struct sessions {
    uint64_t (*now_ns)(void);
    pthread_mutex_t lock;
    struct session all[SESSIONS_MAX]; /* under the lock */
};

int sessions_new(uint64_t (*now_ns)(void), struct sessions **ret)
{
    struct sessions *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->now_ns = now_ns;
    pthread_mutex_init(&s->lock, NULL);
    *ret = s;
    return 0;
}

void sessions_free(struct sessions *s)
{
    if (!s)
        return;
    pthread_mutex_destroy(&s->lock);
    free(s);
}

int sessions_begin(struct sessions *s, const unsigned char token[SHA256_BYTES], char ret_id[SESSION_ID_BYTES])
{
    unsigned char random[(SESSION_ID_BYTES - 1) / 2];
    struct session session = {.used_ns = s->now_ns()};
    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return -EIO;
    hex_write(random, sizeof(random), ret_id);
    sha256(ret_id, SESSION_ID_BYTES - 1, session.id);
    memcpy(session.token, token, sizeof(session.token));
    pthread_mutex_lock(&s->lock);
    struct session *place = s->all;
    for (size_t i = 1; i < SESSIONS_MAX; i++)
        if (s->all[i].used_ns < place->used_ns)
            place = &s->all[i];
    *place = session;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* Under the lock. Ids are compared as hashes: the time that it takes tells nothing of them. */
static struct session *find_session(struct sessions *s, const char *id)
{
    unsigned char hash[SHA256_BYTES];
    const uint64_t now_ns = s->now_ns();
    sha256(id, strlen(id), hash);
    for (size_t i = 0; i < SESSIONS_MAX; i++)
        if (s->all[i].used_ns && memcmp(s->all[i].id, hash, sizeof(hash)) == 0)
            return now_ns - s->all[i].used_ns < IDLE_NS ? &s->all[i] : NULL;
    return NULL;
}

bool sessions_find(struct sessions *s, const char *id, unsigned char ret_token[SHA256_BYTES])
{
    pthread_mutex_lock(&s->lock);
    struct session *session = find_session(s, id);
    if (session) {
        session->used_ns = s->now_ns();
        memcpy(ret_token, session->token, SHA256_BYTES);
    }
    pthread_mutex_unlock(&s->lock);
    return session;
}

void sessions_end(struct sessions *s, const char *id)
{
    pthread_mutex_lock(&s->lock);
    struct session *session = find_session(s, id);
    if (session)
        *session = (struct session){0};
    pthread_mutex_unlock(&s->lock);
}
