/* From the wire record of a request to an explanation: what was asked for, how long each thing took, what was to blame.
 * Pure: the same record and the same names give the same request. What it needs to know of processes and kernel code it
 * asks the pipeline for, through three functions. */
#pragma once

#include "base/cleanup.h"
#include "model/frame.h"
#include "model/request.h"
#include "model/resource.h"

#include <linux/types.h>

#include "probes/request.h"

struct request_names {
    void *context;
    /* Names kernel addresses, leaf first; returns how many frames. NULL: no names. */
    size_t (*kernel_frames)(void *context, const __u64 *addresses, size_t count, struct frame *ret_frames, size_t max);
    /* Names the user stack of a wait of this record, whose addresses are those behind it; its texts hold until the next
     * call. NULL: no names. */
    size_t (*user_frames)(void *context, const struct request_record *record, const struct request_wait *wait,
                          const __u64 *addresses, struct frame *ret_frames, size_t max);
    /* The process, or NULL when it is gone without a trace. NULL: never known. */
    const struct resource *(*resource)(void *context, uint32_t pid, uint64_t cgroup_id);
};

/* -EBADMSG: this is no HTTP, whatever it began with (the caller counts LOSS_DECODE); -ENOMEM. */
int diagnose_request(const struct request_record *record, const struct request_names *names, struct request **ret);
