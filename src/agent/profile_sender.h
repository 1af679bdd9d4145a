/* Encodes profiles as OTLP packets and delivers them (lib/otlp/sender.h). Every sample is in one accepted
 * packet, or counted as dropped. Belongs to one thread. */
#pragma once

#include "agent/config.h"
#include "agent/export_stats.h"
#include "base/cleanup.h"
#include "model/profile.h"

#include "otlp/sender.h"

struct profile_sender;

/* All but `config` is borrowed. */
struct profile_sender_options {
    const struct config *config; /* copied */
    const struct otlp_transport *transport;
    struct export_stats *stats;
    /* As of struct otlp_sender_options. */
    uint64_t (*now_ns)(void *argument);
    bool (*pause)(void *argument, unsigned ms);
    uint64_t (*closed_ns)(void *argument);
    void *argument;
};

/* Connects to nothing yet. -errno: the endpoint is unusable, which is logged; -ENOMEM. */
int profile_sender_new(const struct profile_sender_options *o, struct profile_sender **ret);
void profile_sender_free(struct profile_sender *s);
DEFINE_FREEP(profile_sender)

/* Returns when all packets of the profile are delivered or given up: for each packet five minutes at most,
 * and after the shutdown began a few seconds for all. */
void profile_sender_send(struct profile_sender *s, const struct profile *p);

const char *profile_sender_url(const struct profile_sender *s); /* without secrets */
bool profile_sender_is_grpc(const struct profile_sender *s);
