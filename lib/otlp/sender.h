/* Delivers packets of OTLP to a receiver: one that does not answer, or says that it is busy, is asked again a
 * few times, each time later. Belongs to one thread. Of libsonde's exporters and of the agent's. */
#pragma once

#include "partial_success.h"
#include "retry.h"
#include "settings.h"
#include "transport.h"

#include <stdatomic.h>

/* About: receivers take no packet of any size, and those of gRPC none of more than 4 MiB unless they are told to. */
#define OTLP_PACKET_BYTES ((size_t)3 << 20)

struct otlp_sender_options {
    const struct otlp_transport *transport;
    const struct otlp_settings *settings;
    enum otlp_signal signal;
    enum otlp_protocol protocol;
    const char *url, *user_agent;
    const struct otlp_encoding *encoding; /* in the place of what the settings say; NULL: none */
    struct otlp_retry_limits limits;
    atomic_uint_least64_t *errors;                   /* counts attempts that failed */
    void (*failed)(void *argument, const char *why); /* is told of each of them; NULL: nobody is */
    /* CLOCK_MONOTONIC; the sender reads no other clock. Also called during a post, as is closed_ns. */
    uint64_t (*now_ns)(void *argument);
    bool (*pause)(void *argument, unsigned ms); /* waits; false: that attempt was the last one */
    uint64_t (*closed_ns)(void *argument);      /* when the shutdown began, by that clock; 0: it did not */
    void *argument;
    /* Reads the answers of receivers that are sent JSON (partial_success.h). */
    uint64_t (*read_json)(const char *body, size_t size, char ret_why[OTLP_PARTIAL_WHY_SIZE]);
};

struct otlp_sender {
    struct otlp_sender_options o;
    void *connection; /* NULL in a child, until it has something to send */
};

struct otlp_delivery {
    bool is_final;                     /* it was refused for what it is: another packet may fare better */
    uint64_t rejected;                 /* of what was in the packet, by a receiver that accepted it */
    size_t sent_bytes;                 /* of an accepted packet, as it went out */
    bool is_busy;                      /* that was all that the receiver said */
    char why[OTLP_TRANSPORT_WHY_SIZE]; /* it failed, or rejected something; "" when nobody says */
};

/* All is borrowed. -EINVAL with the reason in `why`: the URL is none; -ENOMEM. Connects to nothing yet. */
int otlp_sender_init(struct otlp_sender *s, const struct otlp_sender_options *o, char *why, size_t why_size);
void otlp_sender_fini(struct otlp_sender *s);

/* 0: accepted; -errno with ret->why: -EREMOTEIO: an answer that is no acceptance, -ECANCELED: the program
 * ends. */
int otlp_sender_deliver(struct otlp_sender *s, const void *data, size_t size, struct otlp_delivery *ret);

/* The parent's connection is left alone, and lost: it may have been in the middle of something, and to close
 * it would say good-bye in the parent's name. */
void otlp_sender_reset_in_child(struct otlp_sender *s);
