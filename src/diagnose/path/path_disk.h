/* The requests that block devices served during segments of a critical path: requests of the path's own threads, and of
 * other threads. Pure. */
#pragma once

#include "base/buf.h"
#include "model/request.h"

#include <stddef.h>
#include <stdint.h>

struct flight_index;
struct path_names;
struct path_segments;

/* A request that ended at `time`. */
struct path_disk_request {
    uint64_t time_ns;
    uint64_t queue_ns, device_ns; /* before that: in the queue, then at the device */
    uint64_t bytes;
    uint32_t device;   /* as in `struct recorder_record` */
    uint32_t tid, pid; /* who handed it in; pid 0: not known */
    bool is_write, is_failed;
};

/* Lists, by time, the device's requests that ended during the request of the path. The caller frees `*ret`. -ENOMEM. */
int path_disk_find(const struct flight_index *index, const struct path_segments *path, struct path_disk_request **ret,
                   size_t *ret_count);

/* Appends lines for each device (four at most) that served the threads of segments [first, end) meanwhile: one line
 * about the requests that these threads made, one about the requests of other threads. If the device served no request
 * made by these threads, appends only the latter. */
void path_disk_put(const struct path_segments *path, size_t first, size_t end, const struct path_names *names,
                   struct buf *out);
