/* The threads behind gRPC; see grpc_workers.h. */
#include "server/grpc_workers.h"

#include "base/signal_mask.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <utlist.h>

struct grpc_workers {
    void (*answer)(void *context, struct grpc_call *call);
    void *context;
    int fd;
    pthread_t threads[GRPC_WORKERS];
    unsigned started;
    pthread_mutex_t lock;
    pthread_cond_t has_calls;
    struct grpc_call *waiting, *answered; /* this and the following: under the lock */
    size_t waiting_count, given_count;
    bool ends;
};

static struct grpc_call *await_call(struct grpc_workers *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->waiting && !w->ends)
        pthread_cond_wait(&w->has_calls, &w->lock);
    struct grpc_call *call = w->waiting;
    if (call) {
        LL_DELETE(w->waiting, call);
        w->waiting_count--;
    }
    pthread_mutex_unlock(&w->lock);
    return call;
}

static void *work(void *context)
{
    struct grpc_workers *w = context;
    for (struct grpc_call *call; (call = await_call(w)) != NULL;) {
        w->answer(w->context, call);
        pthread_mutex_lock(&w->lock);
        LL_PREPEND(w->answered, call);
        pthread_mutex_unlock(&w->lock);
        eventfd_write(w->fd, 1);
    }
    return NULL;
}

int grpc_workers_start(void (*answer)(void *context, struct grpc_call *call), void *context, int fd,
                       struct grpc_workers **ret)
{
    _cleanup_(grpc_workers_freep) struct grpc_workers *w = calloc(1, sizeof(*w));
    int r = 0;
    if (!w)
        return -ENOMEM;
    w->answer = answer;
    w->context = context;
    w->fd = fd;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->has_calls, NULL);
    for (; w->started < GRPC_WORKERS && r == 0; w->started += r == 0)
        r = signal_mask_create_thread(&w->threads[w->started], work, w);
    if (r < 0)
        return r;
    *ret = take_ptr(w);
    return 0;
}

bool grpc_workers_give(struct grpc_workers *w, struct grpc_call *call)
{
    pthread_mutex_lock(&w->lock);
    const bool has_space = w->waiting_count < GRPC_WAITING_MAX;
    if (has_space) {
        LL_APPEND(w->waiting, call);
        w->waiting_count++;
        w->given_count++;
        pthread_cond_signal(&w->has_calls);
    }
    pthread_mutex_unlock(&w->lock);
    return has_space;
}

struct grpc_call *grpc_workers_take_answered(struct grpc_workers *w)
{
    size_t count;
    struct grpc_call *one;
    pthread_mutex_lock(&w->lock);
    struct grpc_call *answered = take_ptr(w->answered);
    LL_COUNT(answered, one, count);
    w->given_count -= count;
    pthread_mutex_unlock(&w->lock);
    return answered;
}

size_t grpc_workers_count(struct grpc_workers *w)
{
    pthread_mutex_lock(&w->lock);
    const size_t count = w->given_count;
    pthread_mutex_unlock(&w->lock);
    return count;
}

void grpc_workers_free(struct grpc_workers *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->ends = true;
    pthread_cond_broadcast(&w->has_calls);
    pthread_mutex_unlock(&w->lock);
    for (unsigned i = 0; i < w->started; i++)
        pthread_join(w->threads[i], NULL);
    pthread_cond_destroy(&w->has_calls);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
