/* The way from the threads that serve requests to the sink: a stack that they push finished requests on
 * without a lock, bounded in number and bytes, and one thread that takes all of it at once. The thread begins
 * with the first request, sleeps while there are none, and is woken at most every `nap_ms`. */
#pragma once

#include "node.h"
#include "sink.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct trace_writer_options {
    const char *kind, *where;   /* of messages: "trace file", its path */
    const char *overflow;       /* the message of a queue that is full */
    uint32_t queue_max, enough; /* by the sink's weight; the thread naps no longer when there is `enough` */
    uint32_t nap_ms;
};

struct trace_writer {
    /* set once */
    struct trace_writer_options o;
    uint64_t queue_bytes_max;
    void (*on_error)(void *argument, int error, const char *message);
    void *argument;

    /* of those who push */
    struct trace_tree *_Atomic head;
    atomic_uint_least64_t queued, queued_bytes;
    atomic_uint_least64_t submitted;
    atomic_bool idle;                /* the thread sleeps until it is woken */
    atomic_bool hurry;               /* it shall not nap */
    atomic_bool closed;              /* nothing is taken any more */
    atomic_uint_least64_t closed_ns; /* when that began; CLOCK_MONOTONIC */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake, done;
    pthread_t thread;
    bool running, stop;
    uint64_t finished; /* of `submitted` */

    /* the thread's own */
    struct trace_sink *sink;
    struct trace_tree *stale; /* a parent's queue, to be freed */
    int last_error;
    bool overflowed;
    uint64_t reported_drops;
    bool rejecting; /* the last packet that was accepted was not taken as a whole */

    atomic_uint_least64_t written, dropped_queue, dropped_write, write_errors, tensors_malformed, tensors_too_large,
        spans_rejected;
};

/* Takes the sink, also when it fails. Texts are borrowed. */
int trace_writer_init(struct trace_writer *w, struct trace_sink *sink, const struct trace_writer_options *o,
                      const struct sonde_trace_options *user);

/* Writes what is queued and ends the thread. */
void trace_writer_close(struct trace_writer *w);
void trace_writer_fini(struct trace_writer *w);

/* Takes the tree; drops it when the queue is full. */
void trace_writer_push(struct trace_writer *w, struct trace_tree *tree);

int trace_writer_flush(struct trace_writer *w, unsigned timeout_ms);

/* In a child: no thread, an empty queue, no files, no counts. */
void trace_writer_reset_in_child(struct trace_writer *w);

/* --- of the sink ----------------------------------------------------------------------------- */

static inline void trace_writer_count(atomic_uint_least64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* What became of `traces`: written, or (r < 0) lost, which is said when it begins. `detail` NULL: the text of
 * the errno. */
void trace_writer_wrote(struct trace_writer *w, int r, uint64_t traces, const char *where, const char *what,
                        const char *detail);

/* A receiver accepted a packet but for so many spans, which is said when it begins. */
void trace_writer_rejected(struct trace_writer *w, uint64_t spans, const char *where, const char *why);

/* Of the writer's thread: waits. The beginning of the end cuts short the pause that it comes into, and no later one:
 * what is left is tried once more at once. */
void trace_writer_pause(struct trace_writer *w, unsigned ms);
