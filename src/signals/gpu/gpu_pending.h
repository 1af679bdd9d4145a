/* Hangs that were found, and whose events wait for more evidence: the stacks of the threads, which are read one process
 * after the other, and what NCCL's RAS service reports twice, NCCL_APART_NS apart, of the communicators of all these
 * processes. Pipeline thread only. */
#pragma once

#include "signals/gpu/gpu_hangs.h"
#include "signals/process_threads.h"
#include "sources/gpu/nccl_ras_client.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_PENDING_MAX  16             /* further ones have none of this evidence */
#define GPU_PENDING_NS   20000000000ull /* the longest wait */
#define NCCL_APART_NS    10000000000ull

#define GPU_STACKS_BYTES 8192

struct gpu_hang_evidence {
    char call[64];                                /* in which the thread waits; "": unknown */
    char *stacks;                                 /* of the threads, as text; NULL: unknown */
    const struct nccl_communicator *communicator; /* of the process, in which no rank goes on; NULL: none is known */
};

typedef void gpu_pending_emit(void *context, const struct gpu_hang *hang, const struct gpu_hang_evidence *evidence);

struct pending_hang {
    struct gpu_hang hang;
    struct gpu_device device; /* of the hang */
    uint64_t found_ns;
    uint32_t inner_pid; /* in its own PID namespace */
    bool has_threads;   /* or it is known that they cannot be read */
    struct gpu_hang_evidence evidence;
};

/* Zeroed but for the first two: none. */
struct gpu_pending {
    struct process_threads *threads; /* NULL: stacks cannot be read */
    uint16_t ras_port;
    struct pending_hang all[GPU_PENDING_MAX];
    size_t count;
    uint32_t asked; /* the process whose threads are being read; 0: none */

    enum { RANKS_UNKNOWN, RANKS_FIRST, RANKS_WAIT, RANKS_SECOND, RANKS_KNOWN } ranks;
    struct nccl_ras_client ras;
    struct nccl_status first;
    uint64_t first_ns; /* when `first` was complete */
};

/* Keeps the hang. False: there is no place, and its event should be emitted at once. */
bool gpu_pending_add(struct gpu_pending *p, const struct gpu_hang *hang, uint64_t now_ns);
/* Passes the hangs whose evidence is complete, or that have waited for long enough, to `emit`. */
void gpu_pending_turn(struct gpu_pending *p, uint64_t now_ns, gpu_pending_emit *emit, void *context);
void gpu_pending_clear(struct gpu_pending *p);
