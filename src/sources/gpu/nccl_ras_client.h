/* Asks NCCL's RAS service of this machine for the status of the communicators of some processes, without waiting for
 * it. Not thread-safe. */
#pragma once

#include "sources/gpu/nccl_ras.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_RAS_PORT      28028
#define NCCL_RAS_MAX_NS    5000000000ull  /* an answer that takes longer is none */
#define NCCL_RAS_MAX_BYTES (64u << 20)    /* likewise for a longer one */
#define NCCL_APART_NS      10000000000ull /* between two questions whose answers are compared */

enum nccl_ras_state {
    NCCL_RAS_IDLE,
    NCCL_RAS_ASKING,
    NCCL_RAS_ANSWERED, /* parser.status is complete */
    NCCL_RAS_FAILED,   /* there is no service, or no answer of it that can be read */
};

/* Zeroed: idle. */
struct nccl_ras_client {
    enum nccl_ras_state state;
    int fd; /* while it asks */
    uint64_t begun_ns;
    bool is_sent, is_refused;
    size_t received;
    struct nccl_parser parser;
};

/* Asks the service at `port` of this machine (127.0.0.1) for the communicators of the processes `pids`, at most
 * NCCL_PIDS_MAX of them; ends an earlier question. */
void nccl_ras_ask(struct nccl_ras_client *c, uint16_t port, const uint32_t *pids, size_t count, uint64_t now_ns);
/* Goes on as far as that is possible now. Returns the state. */
enum nccl_ras_state nccl_ras_turn(struct nccl_ras_client *c, uint64_t now_ns);
/* Ends a question. */
void nccl_ras_end(struct nccl_ras_client *c);
