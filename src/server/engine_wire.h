/* Messages between the server and the engine process, over stream sockets of one machine: a request with its bytes,
 * then a reply with its bytes. Both ends are the same build. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENGINE_QUERY_MAX_BYTES  ((size_t)256 << 10)
#define ENGINE_RESULT_MAX_BYTES ((size_t)128 << 20)
#define ENGINE_FORMAT_BYTES     64

enum engine_request_kind {
    ENGINE_QUERY,       /* of a reader: the bytes are SQL */
    ENGINE_INSERT,      /* rows of one table in RowBinary, in the file that is passed with the request */
    ENGINE_LAST_BLOCKS, /* the reply's bytes are a uint64_t for each table */
};

struct engine_request {
    uint32_t kind, table;
    uint64_t after_block; /* see table_put_insert */
    uint64_t size;        /* of the bytes that follow */
    char format[ENGINE_FORMAT_BYTES];
};

struct engine_reply {
    int32_t error; /* 0; -EPROTO: the engine refuses the request; another -errno. Then the bytes are the reason */
    uint32_t reserved;
    uint64_t size;
};

/* Both wait at most until `deadline_ns` of CLOCK_MONOTONIC (UINT64_MAX: without an end). 0; -ETIMEDOUT; -EPIPE: the
 * other end is closed; another -errno. */
int engine_wire_send(int socket, const void *data, size_t size, uint64_t deadline_ns);
int engine_wire_receive(int socket, void *data, size_t size, uint64_t deadline_ns);
