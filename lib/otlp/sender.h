/* Delivers OTLP packets to a receiver: if it does not respond or is busy, the packet is sent again after increasing
 * pauses. Used by one thread. For libsonde's exporters and the agent's. */
#pragma once

#include "partial_success.h"
#include "retry.h"
#include "settings.h"
#include "transport.h"

#include <stdatomic.h>

/* Target size of packets: receivers limit it, gRPC receivers to 4 MiB by default. */
#define OTLP_PACKET_BYTES ((size_t)3 << 20)

struct otlp_sender_options {
    const struct otlp_transport *transport;
    const struct otlp_settings *settings;
    enum otlp_signal signal;
    enum otlp_protocol protocol;
    const char *url, *user_agent;
    const struct otlp_encoding *encoding; /* overrides the settings' compression; NULL: none */
    struct otlp_retry_limits limits;
    atomic_uint_least64_t *errors;                   /* counts attempts that failed */
    void (*failed)(void *argument, const char *why); /* called for each failed attempt; may be NULL */
    /* CLOCK_MONOTONIC; the sender reads no other clock. Like closed_ns, it is also called during a POST. */
    uint64_t (*now_ns)(void *argument);
    bool (*pause)(void *argument, unsigned ms); /* sleeps; false: give up now */
    uint64_t (*closed_ns)(void *argument);      /* when the shutdown began, by that clock; 0: it did not */
    void *argument;
    /* Parses responses to JSON requests (partial_success.h). */
    uint64_t (*read_json)(const char *body, size_t size, char ret_why[OTLP_PARTIAL_WHY_SIZE]);
};

struct otlp_sender {
    struct otlp_sender_options o;
    void *connection; /* NULL in a child, until it sends something */
};

struct otlp_delivery {
    bool is_final;                     /* the receiver refused this packet; another one may succeed */
    uint64_t rejected;                 /* number of items in the packet that the receiver rejected although it
                                        * accepted the packet */
    size_t sent_bytes;                 /* of an accepted packet, encoded */
    bool is_busy;                      /* the last response was "busy" */
    char why[OTLP_TRANSPORT_WHY_SIZE]; /* of a failure or rejection; "": no message */
};

/* Initialises a sender without connecting. All pointers are borrowed. -EINVAL with the reason in `why`: invalid URL;
 * -ENOMEM. */
int otlp_sender_init(struct otlp_sender *s, const struct otlp_sender_options *o, char *why, size_t why_size);
void otlp_sender_fini(struct otlp_sender *s);

/* Delivers a packet. 0: accepted; otherwise -errno and ret->why: -EREMOTEIO: the receiver did not accept it,
 * -ECANCELED: the program ends. */
int otlp_sender_deliver(struct otlp_sender *s, const void *data, size_t size, struct otlp_delivery *ret);

/* Forgets the parent's connection without closing it (a leak): it may be in use, and closing it would end the
 * parent's session. */
void otlp_sender_reset_in_child(struct otlp_sender *s);
