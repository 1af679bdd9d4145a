/* The receiver of OTLP over HTTP: /v1/traces, /v1/logs, /v1/metrics and /v1development/profiles, in protobuf or
 * JSON, compressed or not. A request is answered with 200 when its rows are in the spool, on disk. */
#pragma once

#include "server/listener.h"
#include "server/spool.h"

#include <semaphore.h>
#include <stdatomic.h>

#define RECEIVER_BODY_MAX_BYTES ((size_t)16 << 20) /* compressed or not */
#define RECEIVER_DECODERS       4                  /* requests at once; others wait for them */

struct receiver {
    struct spool *spool;
    unsigned keep_days;
    uint64_t (*unix_ns)(void);
    sem_t decoders;              /* bounds the memory of bodies that are decompressed and decoded */
    atomic_size_t waiting_bytes; /* decoded, waiting for the disk */
};

void receiver_init(struct receiver *receiver, struct spool *spool, unsigned keep_days, uint64_t (*unix_ns)(void));

/* An answer of listener_options, whose context is the receiver. */
enum MHD_Result receiver_answer(void *receiver, const struct listener_request *request);
