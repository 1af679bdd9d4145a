/* The queue and its thread. The thread takes all queued requests, passes them to the sink, and sleeps; it holds no
 * lock while the sink works. */
#include "writer.h"

#include "background.h"
#include "tree.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MESSAGE_SIZE 4608

static void report(struct trace_writer *w, int error, const char *where, const char *what, const char *detail)
{
    char message[MESSAGE_SIZE], text[64];
    if (!w->on_error)
        return;
    if (snprintf(message, sizeof(message), "%s %s: %s: %s", w->o.kind, where, what,
                 detail ? detail : strerror_r(error, text, sizeof(text))) < 0)
        return;
    w->on_error(w->argument, error, message);
}

void trace_writer_wrote(struct trace_writer *w, int r, uint64_t traces, const char *where, const char *what,
                        const char *detail)
{
    trace_writer_count(r < 0 ? &w->dropped_write : &w->written, traces);
    if (r < 0 && r != w->last_error)
        report(w, -r, where, what, detail);
    w->last_error = r;
}

void trace_writer_rejected(struct trace_writer *w, uint64_t spans, const char *where, const char *why)
{
    char what[64];
    trace_writer_count(&w->spans_rejected, spans);
    if (spans > 0 && !w->rejecting) {
        snprintf(what, sizeof(what), "%llu spans were rejected", (unsigned long long)spans);
        report(w, EREMOTEIO, where, what, *why ? why : NULL);
    }
    w->rejecting = spans > 0;
}

/* --- a batch --------------------------------------------------------------------------------- */

/* Takes the whole stack, and returns it oldest first. */
static struct trace_tree *take_all(struct trace_writer *w)
{
    struct trace_tree *t = atomic_exchange(&w->head, NULL), *list = NULL;
    while (t) {
        struct trace_tree *next = t->queued;
        t->queued = list;
        list = t;
        t = next;
    }
    return list;
}

/* Frees a request and its share of the queue. */
static void free_queued(struct trace_writer *w, struct trace_tree *t)
{
    size_t bytes = atomic_load_explicit(&t->bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&w->queued, t->weight, memory_order_relaxed);
    atomic_fetch_sub_explicit(&w->queued_bytes, bytes, memory_order_relaxed);
    trace_tree_free(t);
}

/* Writes the list, freeing each request as soon as the sink has taken it. Returns the number of requests. */
static uint64_t write_list(struct trace_writer *w, struct trace_tree *list)
{
    uint64_t n = 0;
    for (struct trace_tree *t = list, *next; t; t = next, n++) {
        next = t->queued;
        w->sink->kind->take(w->sink, w, t);
        free_queued(w, t);
    }
    w->sink->kind->finish(w->sink, w);
    return n;
}

static void report_drops(struct trace_writer *w)
{
    uint64_t dropped = atomic_load_explicit(&w->dropped_queue, memory_order_relaxed);
    bool now = dropped != w->reported_drops;
    if (now && !w->overflowed)
        report(w, ENOBUFS, w->o.where, w->o.overflow, NULL);
    w->overflowed = now;
    w->reported_drops = dropped;
}

/* --- the thread ------------------------------------------------------------------------------ */

/* Under the lock. Lets requests gather, so that producers need not wake the thread. */
static void nap(struct trace_writer *w)
{
    struct timespec until = trace_deadline(w->o.nap_ms);
    while (!w->stop && !atomic_load(&w->hurry) && pthread_cond_timedwait(&w->wake, &w->lock, &until) == 0)
        ;
}

void trace_writer_pause(struct trace_writer *w, unsigned ms)
{
    struct timespec until = trace_deadline(ms);
    pthread_mutex_lock(&w->lock);
    bool stopped = w->stop;
    while (w->stop == stopped && pthread_cond_timedwait(&w->wake, &w->lock, &until) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&w->lock);
}

/* Under the lock. Sleeps until a request is pushed: producers check `idle` after pushing, this thread checks the
 * stack after setting `idle`. */
static void sleep_until_pushed(struct trace_writer *w)
{
    atomic_store(&w->idle, true);
    while (!w->stop && atomic_load(&w->idle) && !atomic_load(&w->head))
        pthread_cond_wait(&w->wake, &w->lock);
    atomic_store(&w->idle, false);
}

/* Frees what a parent had queued at the fork; the queue's counters were reset. */
static void free_stale(struct trace_tree *list)
{
    for (struct trace_tree *next; list; list = next) {
        next = list->queued;
        trace_tree_free(list);
    }
}

static void *run(void *argument)
{
    struct trace_writer *w = argument;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* decimal point in tensors, whatever the server's locale */
    if (c)
        uselocale(c);
    pthread_mutex_lock(&w->lock);
    struct trace_tree *stale = w->stale;
    w->stale = NULL;
    pthread_mutex_unlock(&w->lock);
    free_stale(stale);
    pthread_mutex_lock(&w->lock);
    for (;;) {
        atomic_store(&w->hurry, false);
        struct trace_tree *list = take_all(w);
        if (list) {
            pthread_mutex_unlock(&w->lock);
            uint64_t n = write_list(w, list);
            report_drops(w);
            pthread_mutex_lock(&w->lock);
            w->finished += n;
            pthread_cond_broadcast(&w->done);
            nap(w);
        } else if (w->stop) {
            break;
        } else {
            sleep_until_pushed(w);
        }
    }
    pthread_mutex_unlock(&w->lock);
    if (c) {
        uselocale(LC_GLOBAL_LOCALE);
        freelocale(c);
    }
    return NULL;
}

/* Under the lock. */
static int start_thread(struct trace_writer *w)
{
    int r = trace_background_start(&w->thread, run, w);
    w->running = r == 0;
    return r;
}

/* Drops queued requests that no thread will write: it has ended, or could not be created. */
static uint64_t drop_left(struct trace_writer *w)
{
    uint64_t n = 0;
    for (struct trace_tree *t = take_all(w), *next; t; t = next, n++) {
        next = t->queued;
        trace_writer_count(&w->dropped_write, 1);
        free_queued(w, t);
    }
    return n;
}

/* Blocks at most for the lock, which is never held during I/O. */
static void wake(struct trace_writer *w)
{
    int r = 0;
    pthread_mutex_lock(&w->lock);
    if (!w->running && !w->stop)
        r = start_thread(w);
    atomic_store(&w->idle, r < 0); /* without a thread the next request tries again */
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    if (r == 0)
        return;
    trace_writer_count(&w->write_errors, 1);
    report(w, -r, w->o.where, "no thread could be created to write it", NULL);
    uint64_t lost = drop_left(w);
    pthread_mutex_lock(&w->lock);
    w->finished += lost;
    pthread_cond_broadcast(&w->done);
    pthread_mutex_unlock(&w->lock);
}

void trace_writer_push(struct trace_writer *w, struct trace_tree *tree)
{
    uint64_t bytes = atomic_load_explicit(&tree->bytes, memory_order_relaxed);
    tree->weight = w->sink->kind->weight(tree);
    uint64_t queued = atomic_fetch_add_explicit(&w->queued, tree->weight, memory_order_relaxed) + tree->weight;
    uint64_t queued_bytes = atomic_fetch_add_explicit(&w->queued_bytes, bytes, memory_order_relaxed) + bytes;
    if (queued > w->o.queue_max || queued_bytes > w->queue_bytes_max || atomic_load(&w->closed)) {
        atomic_fetch_sub_explicit(&w->queued, tree->weight, memory_order_relaxed);
        atomic_fetch_sub_explicit(&w->queued_bytes, bytes, memory_order_relaxed);
        trace_writer_count(&w->dropped_queue, 1);
        trace_tree_free(tree);
        return;
    }
    atomic_fetch_add(&w->submitted, 1); /* before it becomes visible: trace_writer_flush waits for it */
    tree->queued = atomic_load_explicit(&w->head, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&w->head, &tree->queued, tree))
        ;
    bool enough = queued >= w->o.enough || queued_bytes > w->queue_bytes_max / 2;
    if (atomic_load(&w->idle) || (enough && !atomic_exchange(&w->hurry, true)))
        wake(w);
    if (atomic_load(&w->closed))
        drop_left(w);
}

int trace_writer_flush(struct trace_writer *w, unsigned timeout_ms)
{
    struct timespec until = trace_deadline(timeout_ms);
    uint64_t target = atomic_load(&w->submitted);
    int r = 0;
    pthread_mutex_lock(&w->lock);
    while (w->finished < target && r == 0) {
        atomic_store(&w->hurry, true);
        pthread_cond_signal(&w->wake);
        r = pthread_cond_timedwait(&w->done, &w->lock, &until);
    }
    r = w->finished < target ? -ETIMEDOUT : 0;
    pthread_mutex_unlock(&w->lock);
    return r;
}

int trace_writer_init(struct trace_writer *w, struct trace_sink *sink, const struct trace_writer_options *o,
                      const struct sonde_trace_options *user)
{
    w->o = *o;
    w->queue_bytes_max = user->queue_bytes_max ? user->queue_bytes_max : (uint64_t)64 << 20;
    w->on_error = user->on_error;
    w->argument = user->argument;
    atomic_init(&w->idle, true);
    pthread_mutex_init(&w->lock, NULL);
    int r = trace_conditions_init(&w->wake, &w->done);
    if (r < 0)
        sink->kind->free(sink);
    else
        w->sink = sink;
    return r;
}

void trace_writer_close(struct trace_writer *w)
{
    atomic_store(&w->closed_ns, sonde_trace_now_ns());
    atomic_store(&w->closed, true);
    pthread_mutex_lock(&w->lock);
    bool running = w->running;
    w->stop = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    if (running)
        pthread_join(w->thread, NULL);
    w->running = false;
    drop_left(w);
}

void trace_writer_fini(struct trace_writer *w)
{
    /* The queue is empty: each queued request holds a reference to the manager. */
    w->sink->kind->free(w->sink);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wake);
    pthread_cond_destroy(&w->done);
}

void trace_writer_reset_in_child(struct trace_writer *w)
{
    atomic_uint_least64_t *counts[] = {
        &w->queued,        &w->queued_bytes, &w->submitted,         &w->written,           &w->dropped_queue,
        &w->dropped_write, &w->write_errors, &w->tensors_malformed, &w->tensors_too_large, &w->spans_rejected};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        atomic_store_explicit(counts[i], 0, memory_order_relaxed);
    struct trace_tree *left = take_all(w), **end = &w->stale;
    while (*end)
        end = &(*end)->queued;
    *end = left;
    w->running = w->overflowed = w->rejecting = false;
    w->finished = w->reported_drops = 0;
    w->last_error = 0;
    atomic_store(&w->hurry, false);
    atomic_store(&w->idle, true);
    trace_conditions_init(&w->wake, &w->done); /* the old condition variables have waiters that do not exist here */
    w->sink->kind->reset_in_child(w->sink);
}
