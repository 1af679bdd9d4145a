/* Encodes profiles as OTLP packets and delivers them (packet_sender.h). Every sample is in one accepted packet or
 * counted as dropped. Used by one thread. */
#pragma once

#include "base/cleanup.h"
#include "config/config.h"
#include "model/profile.h"
#include "send/export_io.h"
#include "send/export_stats.h"

struct profile_sender;

/* Creates a sender without connecting, for captures or for the agent's own export. `config` is copied, the rest
 * borrowed. -errno: the endpoint is unusable (logged); -ENOMEM. */
int profile_sender_new(const struct config *config, const struct export_io *io, struct export_end *end,
                       struct export_stats *stats, bool is_for_captures, struct profile_sender **ret);
void profile_sender_free(struct profile_sender *s);
DEFINE_FREEP(profile_sender)

/* Sends a profile. Returns when all its packets are delivered or given up: after at most five minutes per packet (30
 * seconds for captures), and a few seconds for all once the export ends. */
void profile_sender_send(struct profile_sender *s, const struct profile *p);
/* The same for a profile that a server asked for: all samples have the attribute CAPTURE_ATTRIBUTE. */
void profile_sender_send_capture(struct profile_sender *s, const struct profile *p, const char *capture_id);

const char *profile_sender_url(const struct profile_sender *s); /* without secrets */
bool profile_sender_is_grpc(const struct profile_sender *s);
