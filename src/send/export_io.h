/* What the agent's exporters and their senders share: the transport, the clock, and the end of the export. */
#pragma once

#include "otlp/transport.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The transport and the clock; tests replace both. All borrowed. */
struct export_io {
    const struct otlp_transport *transport;
    uint64_t (*now_ns)(void *argument); /* CLOCK_MONOTONIC; the only clock that decides anything */
    /* Sleeps, on the sender thread. False: the export ends. */
    bool (*pause)(void *argument, unsigned ms);
    void *argument;
};

/* The end of an export; threads can wait for it. The lock and the condition also serve its owner. */
struct export_end {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* waits by CLOCK_MONOTONIC */
    uint64_t begun_ns;      /* under `lock`; 0: not yet */
};

void export_end_init(struct export_end *e);
void export_end_fini(struct export_end *e); /* no thread waits any more */
/* Wakes all waiting threads. `now_ns` must not be 0; a second call changes nothing. */
void export_end_begin(struct export_end *e, uint64_t now_ns);
uint64_t export_end_begun_ns(struct export_end *e);
/* Sleeps until `end_ns`, CLOCK_MONOTONIC; false: the export ends, or began to end meanwhile. */
bool export_end_pause(struct export_end *e, uint64_t end_ns);

/* libcurl and the system's clock; pauses last until the export ends. Borrows `end`. */
struct export_io export_io_system(struct export_end *end);
