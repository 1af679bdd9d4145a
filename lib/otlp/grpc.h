/* A call of gRPC as far as libcurl does not know it: the five bytes before a message, what a reply's headers and
 * trailers say, and what that means to a sender of OTLP. Pure. What comes from the receiver is not trusted.
 * Sources: gRPC's PROTOCOL-HTTP2.md and its http-grpc-status-mapping.md; OTLP's specification, "Failures". */
#pragma once

#include "partial_success.h"
#include "transport.h"

#define OTLP_GRPC_PREFIX_BYTES 5

/* All zeros before a call. */
struct otlp_grpc_reply {
    bool is_grpc; /* by its content-type */
    bool has_status, has_retry;
    uint32_t status; /* of gRPC */
    uint32_t retry_after_ms;
    char message[OTLP_PARTIAL_WHY_SIZE]; /* one line, "" */
    char encoding[16];                   /* of what is compressed in it; "": none, or one with a longer name */
};

/* Before a message of `size` bytes. -E2BIG: more than there can be. */
int otlp_grpc_put_prefix(unsigned char ret[OTLP_GRPC_PREFIX_BYTES], bool is_compressed, size_t size);

/* A line of headers or trailers, as libcurl gives it: "name: value\r\n". Others than gRPC's are passed over; a
 * status line ("HTTP/2 200") begins the reply anew. */
void otlp_grpc_read_header(struct otlp_grpc_reply *reply, const char *line, size_t size);

/* The verdict, why and retry_after_ms of what was answered in whole with this status of HTTP. */
void otlp_grpc_judge(const struct otlp_grpc_reply *reply, unsigned http_status, struct otlp_answer *answer);
/* The same without gRPC. */
void otlp_http_judge(unsigned status, struct otlp_answer *answer);

/* The message in a body: where it is, or, of a compressed one, unpacked into `room`. NULL: there is none, or
 * nothing that can be read. `encoding` is known beside gzip; NULL: none is. */
const char *otlp_grpc_message(const struct otlp_grpc_reply *reply, const struct otlp_encoding *encoding,
                              const char *body, size_t size, char *room, size_t room_size, size_t *ret_size);
