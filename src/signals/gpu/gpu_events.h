/* Events of GPUs. */
#pragma once

#include "signals/gpu/gpu_hangs.h"
#include "signals/gpu/gpu_pending.h"
#include "signals/gpu/gpu_state.h"
#include "signals/signal.h"

#define GPU_THROTTLED_AGAIN_NS 300000000000ull /* clocks that are reduced now and then are one event in this time */

#define GPU_XID_RELATED_NS     600000000000ull /* an Xid of this time before belongs to an event of its device */

/* What the events need. Zeroed but for the pointers: none yet. */
struct gpu_events {
    const struct signal_services *services;
    const struct gpu_state *state;
    uint64_t throttled_ns[GPU_DEVICES_MAX]; /* by index: when an event last said so; 0: none */
};

void gpu_events_xid(const struct gpu_events *e, const struct gpu_list *list, const struct gpu_xid *xid);
void gpu_events_driver(const struct gpu_events *e, const struct gpu_driver *driver);
void gpu_events_hang(const struct gpu_events *e, const struct gpu_hang *hang, const struct gpu_hang_evidence *evidence);

/* Compares a poll with the one before. `before` NULL: it is the first, and only what lasts is news. */
void gpu_events_poll(struct gpu_events *e, const struct gpu_list *before, const struct gpu_list *now, uint64_t time_ns);
