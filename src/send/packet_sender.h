/* Delivers packets of one signal to the agent's OTLP receiver (lib/otlp/sender.h), with the settings that all signals
 * share. Counts delivered packets, and logs failures, at most one every five minutes. Used by one thread. */
#pragma once

#include "base/cleanup.h"
#include "config/config.h"
#include "send/export_io.h"
#include "send/export_stats.h"

#include "otlp/sender.h"

struct packet_sender;

/* All members are borrowed, except `config`, which is copied. */
struct packet_sender_options {
    const struct config *config;
    enum otlp_signal signal;
    bool is_for_captures; /* the receiver is that of otlp.captures_endpoint, not the signal's */
    uint64_t give_up_ns;  /* no attempt begins that long after a packet's first one */
    const struct export_io *io;
    struct export_end *end;
    struct packet_stats *stats;
};

/* Creates a sender without connecting. -errno: the endpoint is unusable (logged); -ENOMEM. */
int packet_sender_new(const struct packet_sender_options *o, struct packet_sender **ret);
void packet_sender_free(struct packet_sender *s);
DEFINE_FREEP(packet_sender)

/* Returns when the packet is delivered or given up: a few seconds after the export ends, at the latest. 0: accepted,
 * without `*ret_rejected` of its items. -EREMOTEIO and others: `*ret_reason` says why it is dropped. */
int packet_sender_send(struct packet_sender *s, const void *data, size_t size, uint64_t *ret_rejected,
                       enum drop_reason *ret_reason);

const char *packet_sender_url(const struct packet_sender *s); /* without secrets */
bool packet_sender_is_grpc(const struct packet_sender *s);
