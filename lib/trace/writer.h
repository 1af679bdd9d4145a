/* Queue from request threads to the sink: a lock-free stack of finished requests, bounded in number and bytes, and
 * one thread that takes all of them at once. The thread starts with the first request, sleeps while the queue is
 * empty, and is woken at most every `nap_ms`. */
#pragma once

#include "node.h"
#include "sink.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct trace_writer_options {
    const char *kind, *where;   /* for messages: "trace file", its path */
    const char *overflow;       /* message when the queue is full */
    uint32_t queue_max, enough; /* in the sink's weights; at `enough` the thread stops napping */
    uint32_t nap_ms;
};

struct trace_writer {
    /* set once */
    struct trace_writer_options o;
    uint64_t queue_bytes_max;
    void (*on_error)(void *argument, int error, const char *message);
    void *argument;

    /* used by producers */
    struct trace_tree *_Atomic head;
    atomic_uint_least64_t queued, queued_bytes;
    atomic_uint_least64_t submitted;
    atomic_bool idle;                /* the thread sleeps until it is woken */
    atomic_bool hurry;               /* the thread must not nap */
    atomic_bool closed;              /* no more requests are accepted */
    atomic_uint_least64_t closed_ns; /* when that began; CLOCK_MONOTONIC */

    pthread_mutex_t lock; /* protects the following members */
    pthread_cond_t wake, done;
    pthread_t thread;
    bool running, stop;
    uint64_t finished; /* counts up to `submitted` */

    /* used by the thread only */
    struct trace_sink *sink;
    struct trace_tree *stale; /* the queue inherited from a parent, to be freed */
    int last_error;
    bool overflowed;
    uint64_t reported_drops;
    bool rejecting; /* the last accepted packet was partly rejected */

    atomic_uint_least64_t written, dropped_queue, dropped_write, write_errors, tensors_malformed, tensors_too_large,
        spans_rejected;
};

/* Initialises the writer. Takes ownership of the sink, also on failure. Texts are borrowed. */
int trace_writer_init(struct trace_writer *w, struct trace_sink *sink, const struct trace_writer_options *o,
                      const struct sonde_trace_options *user);

/* Writes the queued requests and ends the thread. */
void trace_writer_close(struct trace_writer *w);
void trace_writer_fini(struct trace_writer *w);

/* Queues the tree; takes ownership, and drops it if the queue is full. */
void trace_writer_push(struct trace_writer *w, struct trace_tree *tree);

int trace_writer_flush(struct trace_writer *w, unsigned timeout_ms);

/* In a child: no thread, empty queue, no files, counters reset. */
void trace_writer_reset_in_child(struct trace_writer *w);

/* --- for sinks ------------------------------------------------------------------------------- */

static inline void trace_writer_count(atomic_uint_least64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* Reports the result of `traces`: written, or lost (r < 0): then the first failure of a series is reported.
 * `detail` NULL: the errno's text. */
void trace_writer_wrote(struct trace_writer *w, int r, uint64_t traces, const char *where, const char *what,
                        const char *detail);

/* A receiver accepted a packet but rejected `spans` spans; the first of a series is reported. */
void trace_writer_rejected(struct trace_writer *w, uint64_t spans, const char *where, const char *why);

/* Sleeps on the writer thread. A shutdown ends only the pause during which it begins, so that the rest is tried once
 * more at once. */
void trace_writer_pause(struct trace_writer *w, unsigned ms);
