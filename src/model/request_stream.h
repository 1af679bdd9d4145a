/* The times and counts of a reply that is a stream: of server-sent events, or of messages of gRPC, which are chunks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request_stream {
    bool is_stream;          /* otherwise the rest is zeros */
    bool is_late;            /* events that were sent with the header are not counted */
    bool is_incomplete;      /* nor are some others */
    uint64_t first_byte_ns;  /* of the reply; since the request began, as the next two */
    uint64_t first_ns;       /* the first token; where there are no tokens, the first chunk; 0: none */
    uint64_t last_ns;        /* the last one */
    uint32_t chunks, tokens; /* events with data; events with text */
    uint32_t usage;          /* how many tokens the server says there were; 0: it does not */
};

/* How many tokens the server says there were, else how many events with text, else chunks. */
uint32_t request_stream_count(const struct request_stream *s);

/* Whether that number is of tokens. */
static inline bool request_stream_has_tokens(const struct request_stream *s)
{
    return s->tokens > 0;
}

/* The mean time from one token, or chunk, to the next. 0: there is only one, or none. */
uint64_t request_stream_step_ns(const struct request_stream *s);

#define REQUEST_STREAM_TEXT_BYTES 160

/* "first token after 412 ms, then 21.3 ms per token, 96 tokens". Returns `out`; "" if no event was seen. */
const char *request_stream_text(const struct request_stream *s, char out[REQUEST_STREAM_TEXT_BYTES]);
