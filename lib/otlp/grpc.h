/* The parts of gRPC that libcurl does not implement: the five-byte prefix of a message, the headers and trailers of a
 * response, and their meaning for an OTLP sender. Pure. Data from the receiver is not trusted. Sources: gRPC's
 * PROTOCOL-HTTP2.md and http-grpc-status-mapping.md; the OTLP specification, "Failures". */
#pragma once

#include "partial_success.h"
#include "transport.h"

#define OTLP_GRPC_PREFIX_BYTES 5

/* All zeros before a call. */
struct otlp_grpc_reply {
    bool is_grpc; /* according to its content-type */
    bool has_status, has_retry;
    uint32_t status; /* gRPC status code */
    uint32_t retry_after_ms;
    char message[OTLP_PARTIAL_WHY_SIZE]; /* a single line; "": none */
    char encoding[16];                   /* of compressed messages; "": none, or a longer, unknown name */
};

/* Writes the prefix of a message of `size` bytes. -E2BIG: too large for gRPC. */
int otlp_grpc_put_prefix(unsigned char ret[OTLP_GRPC_PREFIX_BYTES], bool is_compressed, size_t size);

/* Parses a header or trailer line from libcurl, "name: value\r\n". Other headers than gRPC's are ignored; a status
 * line ("HTTP/2 200") resets the reply. */
void otlp_grpc_read_header(struct otlp_grpc_reply *reply, const char *line, size_t size);

/* Sets verdict, why and retry_after_ms for a complete response with this HTTP status. */
void otlp_grpc_judge(const struct otlp_grpc_reply *reply, unsigned http_status, struct otlp_answer *answer);
/* The same for plain HTTP. */
void otlp_http_judge(unsigned status, struct otlp_answer *answer);

/* Returns the message of a body: a pointer into it, or, if compressed, its decompressed copy in `room`. NULL: no
 * message, or an invalid one. `encoding` is supported besides gzip; NULL: only gzip. */
const char *otlp_grpc_message(const struct otlp_grpc_reply *reply, const struct otlp_encoding *encoding,
                              const char *body, size_t size, char *room, size_t room_size, size_t *ret_size);
