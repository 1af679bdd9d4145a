/* The components of the time to the first token, by the requests' IDs. A stream has a record at its first token, and
 * more later: by then the flight recorder may have overwritten what led to the first token. Initially zeros; pure. */
#pragma once

#include "model/request.h"

#include <string.h>

#define FIRST_TOKENS_MAX 256 /* streams in progress; of two at one place, only the later one is kept */

struct first_tokens {
    struct {
        uint64_t id; /* 0: free */
        uint64_t first_ns;
        uint64_t part_ns[REQUEST_PART_COUNT];
    } streams[FIRST_TOKENS_MAX];
};

/* Keeps the components of the request's first token. If an earlier record of the same request had components that
 * explain more of the same time, `r` gets those components. */
static inline void first_tokens_keep(struct first_tokens *f, struct request *r)
{
    const size_t place = (size_t)(r->id * 0x9e3779b97f4a7c15ull >> 56) % FIRST_TOKENS_MAX;
    if (!r->id || !r->stream.first_ns)
        return;
    if (f->streams[place].id == r->id && f->streams[place].first_ns == r->stream.first_ns &&
        f->streams[place].part_ns[REQUEST_PART_UNATTRIBUTED] < r->first_part_ns[REQUEST_PART_UNATTRIBUTED]) {
        memcpy(r->first_part_ns, f->streams[place].part_ns, sizeof(r->first_part_ns));
        return;
    }
    f->streams[place].id = r->id;
    f->streams[place].first_ns = r->stream.first_ns;
    memcpy(f->streams[place].part_ns, r->first_part_ns, sizeof(r->first_part_ns));
}
