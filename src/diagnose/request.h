/* Turns the event record of a request into an explanation: method and route, latency breakdown, main cause. Pure: the
 * same record, path and names give the same request. Names of processes and code come from the pipeline through
 * functions. */
#pragma once

#include "base/cleanup.h"
#include "diagnose/path_text.h"
#include "model/frame.h"
#include "model/request.h"
#include "model/resource.h"

#include <linux/types.h>

#include "probes/request.h"

struct request_names {
    void *context;
    /* Resolves kernel addresses, leaf first; returns the number of frames. NULL: no names. */
    size_t (*kernel_frames)(void *context, const __u64 *addresses, size_t count, struct frame *ret_frames, size_t max);
    /* Resolves the user stack of a wait of this record, whose addresses follow the record. Strings are valid until
     * the next call. NULL: no names. */
    size_t (*user_frames)(void *context, const struct request_record *record, const struct request_wait *wait,
                          const __u64 *addresses, struct frame *ret_frames, size_t max);
    /* The resource of the process, or NULL if it exited unseen. Valid at least until diagnose_request returns, also
     * when other names are resolved in between. NULL: never available. */
    const struct resource *(*resource)(void *context, uint32_t pid, uint64_t cgroup_id);
    struct path_names path;
};

/* Creates the request; the caller owns *ret. `path`: its critical path, which is then also where the request begins
 * and, unless its thread alone explains it, where its components come from; NULL: none was found. -EBADMSG: not HTTP,
 * although it looked like it at first (the caller counts LOSS_DECODE); -ENOMEM. */
int diagnose_request(const struct request_record *record, const struct path_segments *path,
                     const struct request_names *names, struct request **ret);
