/* Encodes profiles as OTLP packets and delivers them (lib/otlp/sender.h). Every sample is in one accepted packet or
 * counted as dropped. Used by one thread. */
#pragma once

#include "agent/config.h"
#include "agent/export_stats.h"
#include "base/cleanup.h"
#include "model/profile.h"

#include "otlp/sender.h"

struct profile_sender;

/* All members except `config` are borrowed. */
struct profile_sender_options {
    const struct config *config; /* copied */
    const struct otlp_transport *transport;
    struct export_stats *stats;
    /* See struct otlp_sender_options. */
    uint64_t (*now_ns)(void *argument);
    bool (*pause)(void *argument, unsigned ms);
    uint64_t (*closed_ns)(void *argument);
    void *argument;
};

/* Creates a sender without connecting. -errno: the endpoint is unusable (logged); -ENOMEM. */
int profile_sender_new(const struct profile_sender_options *o, struct profile_sender **ret);
void profile_sender_free(struct profile_sender *s);
DEFINE_FREEP(profile_sender)

/* Sends a profile. Returns when all its packets are delivered or given up: after at most five minutes per packet, and
 * a few seconds for all once the queue is closed. */
void profile_sender_send(struct profile_sender *s, const struct profile *p);

const char *profile_sender_url(const struct profile_sender *s); /* without secrets */
bool profile_sender_is_grpc(const struct profile_sender *s);
