/* One stream of HTTP/2: a request in progress. Pure. */
#pragma once

#include "base/hpack.h"

#include <linux/types.h>

#include "probes/request/http2.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP2_METHOD_BYTES   16
#define HTTP2_MODEL_BYTES    96
#define HTTP2_NO_GRPC_STATUS 255

/* The fields kept from a block of header fields. Sizes of 0: not there, or not known. */
struct http2_fields {
    char method[HTTP2_METHOD_BYTES];
    char path[HPACK_VALUE_MAX];
    size_t method_size, path_size;
    uint16_t status;     /* 0: none */
    uint8_t grpc_status; /* valid if has_grpc_status */
    bool has_grpc_status;
    bool is_grpc;     /* by its content-type */
    bool has_unknown; /* fields that cannot be known were there */
};

/* For hpack_decode: `context` is a struct http2_fields. */
void http2_fields_take(void *context, const struct hpack_field *field);

struct http2_stream {
    struct http2_stream *next_of_bucket;
    struct http2_stream *next, **link; /* of its connection */
    uint64_t connection;
    uint64_t start_ns, read_ns, sent_ns; /* sent_ns: latest; 0: nothing was sent */
    uint64_t end_ns;                     /* of one that has ended */
    uint64_t bytes_in, bytes_out;
    uint64_t reply_ns;          /* the head of the reply was sent; 0: not yet */
    uint64_t first_ns, last_ns; /* of the messages of the reply: when all of it was sent; 0: there was none */
    uint64_t message_left;      /* bytes of a message of the reply that are still to come */
    uint32_t messages;          /* of the reply; only of gRPC */
    uint32_t weight;            /* in the sample: of one that has been reported, as is_notable */
    uint32_t id, pid, tid;
    uint16_t status;
    uint8_t grpc_status; /* HTTP2_NO_GRPC_STATUS: none seen */
    bool is_grpc;
    bool has_body;    /* DATA was received */
    bool has_message; /* it begins as a gRPC message does */
    bool has_reply;   /* the head of the reply was sent */
    bool is_reset;
    bool has_arrival;       /* start_ns: it was at the socket; else it was read */
    bool is_unsent;         /* of a stream that has ended: its last bytes were written, but not sent yet */
    bool lacks_path;        /* its path is not known, or only that it is KServe's */
    bool is_shared;         /* others were in progress on its connection when it began */
    bool is_message_unsent; /* as is_unsent, of the last message of the reply */
    bool has_more_messages; /* than are counted: a frame had several */
    bool is_reported;       /* as a stream that goes on */
    bool is_notable;
    uint8_t line_bytes, model_bytes;
    char line[REQUEST_LINE_BYTES]; /* "POST /path" */
    char model[HTTP2_MODEL_BYTES]; /* with its version: "name:2" */
};

/* The request has been received. `arrival_ns`: 0: not known. */
void http2_stream_begin(struct http2_stream *s, const struct http2_fields *fields, uint64_t arrival_ns,
                        uint64_t read_ns, uint32_t pid, uint32_t tid);
/* It was at the socket at `arrival_ns`, and read from there at `received_ns`. */
void http2_stream_arrived(struct http2_stream *s, uint64_t arrival_ns, uint64_t received_ns);
/* Field 1 or 2 of its first message: a model and its version, if the request is KServe's or TensorFlow Serving's. */
void http2_stream_take_field(struct http2_stream *s, unsigned number, const uint8_t *value, size_t size);
/* The type of the tensor in its first message. A request whose path is not known is KServe's, if this is a type of
 * KServe's. */
void http2_stream_take_tensor(struct http2_stream *s, const uint8_t *type, size_t size);
/* A whole frame of DATA was received. */
void http2_stream_take_body(struct http2_stream *s, size_t size);
/* The length of the message of gRPC with which the next frame of DATA of the reply begins: 4 bytes. */
void http2_stream_take_message(struct http2_stream *s, const uint8_t *length, size_t size);
/* A whole frame of DATA was sent, or (`is_unsent`) written and will be sent later. */
void http2_stream_take_reply(struct http2_stream *s, size_t size, uint64_t time_ns, bool is_unsent);
/* What was written before has been sent. */
void http2_stream_sent(struct http2_stream *s, uint64_t time_ns);
/* The head of the reply, or its trailers. */
void http2_stream_reply(struct http2_stream *s, const struct http2_fields *fields, uint64_t time_ns);
/* One side has reset it, for the reason `code`. */
void http2_stream_reset(struct http2_stream *s, uint32_t code);

/* Completes a record that already has the members of the connection with the members of the stream, which has ended, or
 * which goes on (`is_open`). */
void http2_stream_write(const struct http2_stream *s, bool is_open, struct request_record *r);
/* Of a stream whose reply has several messages: fills the record that comes ahead of its request's, `r`. */
void http2_stream_write_messages(const struct http2_stream *s, bool is_open, const struct request_record *r,
                                 struct request_stream_record *ret);
