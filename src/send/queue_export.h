/* What the exports of queued items have in common (span_export, event_export): the sender, a thread that sends once a
 * second and once more at the end, and the counts of delivered and dropped items. */
#pragma once

#include "config/config.h"
#include "send/export_io.h"
#include "send/export_stats.h"
#include "send/packet_sender.h"

#include <sys/utsname.h>

#define QUEUE_EXPORT_PACKET_BYTES ((size_t)512 << 10) /* before compression */

struct queue_export_options {
    const struct config *config; /* copied as far as needed */
    const struct export_io *io;  /* NULL: libcurl and the system clock */
    enum otlp_signal signal;
    const char *what;                 /* the items, in messages: "spans" */
    const char *thread;               /* its name */
    struct export_end *end;           /* of the queue; borrowed */
    struct queue_export_stats *stats; /* borrowed */
    void (*send)(void *context);      /* sends the items that are due, on the thread */
    void *context;
};

struct queue_export {
    struct queue_export_options o;
    struct export_io io;
    struct packet_sender *sender;
    struct utsname uts;
    char attributes[sizeof(((struct config *)0)->otlp_resource_attributes)]; /* of the node */
    uint64_t packet_items; /* of the items being sent, in packets so far, delivered or dropped */
    pthread_t thread;
    bool has_thread;
};

/* -errno: the receiver's settings are unusable (logged); -ENOMEM. queue_export_fini is due in all cases. */
int queue_export_init(struct queue_export *q, const struct queue_export_options *o);
/* Starts the thread, once. -errno: there is no thread. */
int queue_export_start(struct queue_export *q);
/* Ends the export: the thread sends the queued items for a few seconds at most. Does not wait. */
void queue_export_end(struct queue_export *q);
/* Ends the export, waits for the thread, if there is one, and logs the totals. Accepts a zeroed one. */
void queue_export_fini(struct queue_export *q);

uint64_t queue_export_now_ns(const struct queue_export *q);
void queue_export_count_dropped(struct queue_export *q, enum drop_reason reason, uint64_t items);

/* Items are sent: a call of the first before their packets, of the second for each, and of the third after them, with
 * the result of the encoder and the items that fit in no packet. The thread, and tests, which start none. */
void queue_export_begin_packets(struct queue_export *q);
void queue_export_send_packet(struct queue_export *q, const void *data, size_t size, uint64_t items);
void queue_export_end_packets(struct queue_export *q, uint64_t items, int result, uint64_t too_large);
