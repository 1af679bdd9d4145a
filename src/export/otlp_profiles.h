/* A profile as packets of OTLP (ExportProfilesServiceRequest, v1development), each whole in itself: whatever
 * it refers to stands in its own dictionary, and nothing that was sent before is relied on. The message set
 * is still in development: its field numbers are all in otlp_profiles.c and otlp_dictionary.h.
 *
 * One ResourceProfiles a process, in it one Profile of what the weights are: CPU time or waiting time in nanoseconds. A
 * sample is an entry of the profile: a stack, a thread, perhaps a link to a span. A profile that kept its moments gives
 * a value and a time for each of them, in several packets where they are more than one may hold; another one a sum.
 * Pure: what is written depends on the arguments alone. */
#pragma once

#include "model/profile.h"

#include <stddef.h>
#include <stdint.h>

struct otlp_profiles_options {
    size_t packet_max_bytes; /* before compression */
    const char *host_name;   /* of every resource; "": not said */
    uint64_t id_seed;        /* of the profiles' identifiers, together with their times */
    uint64_t time_step_ns;   /* times of samples are told in steps of so much; 0: as they are */
};

struct otlp_profiles_packet {
    const void *data; /* until the next packet */
    size_t size;
    uint64_t samples; /* as the profile counts them */
    uint32_t profiles;
};

struct otlp_profiles_sink {
    void *context;
    void (*packet)(void *context, const struct otlp_profiles_packet *packet);
};

/* Hands packet after packet to the sink; none for a profile without entries. `*ret_too_large` samples are in
 * none of them: their names or stacks would have filled more than a packet. -ENOMEM: the packets until then
 * are good, the rest is missing. */
int otlp_profiles_write(const struct profile *p, const struct otlp_profiles_options *o,
                        const struct otlp_profiles_sink *sink, uint64_t *ret_too_large);
