/* Encodes a profile as OTLP packets (ExportProfilesServiceRequest, v1development). Each packet is self-contained: its
 * dictionary has all that it references. The protocol is still in development; its field numbers are in
 * lib/otlp/profile_fields.h only.
 *
 * One ResourceProfiles per process, with one Profile of CPU time or off-CPU time in nanoseconds. A sample is an entry
 * of the profile: a stack, a thread, and optionally a link to a span. If the profile kept its moments, each has a value
 * and a timestamp, in several packets if necessary; otherwise the sample has the sum. Pure: the output depends on the
 * arguments only. */
#pragma once

#include "model/profile.h"

#include <stddef.h>
#include <stdint.h>

struct otlp_profiles_options {
    size_t packet_max_bytes; /* before compression */
    const char *host_name;   /* host.name of every resource; "": omitted */
    uint64_t id_seed;        /* profile IDs are derived from this and from the times */
    const char *capture_id;  /* attribute of all samples; NULL: none */
    uint64_t time_step_ns;   /* timestamps are rounded down to multiples of this; 0: unrounded */
};

struct otlp_profiles_packet {
    const void *data; /* valid until the next packet */
    size_t size;
    uint64_t samples; /* number of samples of the profile in this packet */
    uint32_t profiles;
};

struct otlp_profiles_sink {
    void *context;
    void (*packet)(void *context, const struct otlp_profiles_packet *packet); /* borrows */
};

/* Passes packets to the sink; none for a profile without entries. `*ret_too_large`: samples that are in no packet, as
 * their names or stacks exceed packet_max_bytes. 0; -ENOMEM: packets passed before are valid, the rest is missing. */
int otlp_profiles_write(const struct profile *p, const struct otlp_profiles_options *o,
                        const struct otlp_profiles_sink *sink, uint64_t *ret_too_large);
