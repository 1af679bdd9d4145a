/* What the network of the node loses: the source of signal "drops", and its options. Pipeline thread only. */
#pragma once

#include "sources/source.h"

#include <stdbool.h>
#include <stdint.h>

extern const struct source source_drops;

/* Filled from the settings (signals/drops/drops.c). More than these within DROPS_INTERVAL_NS is a record. */
struct drops_options {
    bool enabled;
    int64_t packets;         /* of one reason, of one cgroup */
    int64_t retransmissions; /* to one peer */
};

#define DROPS_INTERVAL_NS 5000000000ull

#define DROPS_PEER_BYTES  64

/* "10.0.0.3:5432", "10.0.0.7" without a port, "[::1]:80", or "other". Uses `out`; returns the text. */
struct drops_peer;
const char *drops_peer_text(const struct drops_peer *peer, char out[DROPS_PEER_BYTES]);
