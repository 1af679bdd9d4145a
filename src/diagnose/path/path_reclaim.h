/* Reclaim and compaction of memory by threads of the path: the recorder has runs that add up to RECLAIM_RECORDER_NS or
 * more (RECORDER_RECLAIM). Pure, except for the callback that looks up the name of a cgroup. */
#pragma once

#include "diagnose/path/path_segments.h"

struct buf;
struct flight_index;
struct path_evidence;
struct path_names;

/* Why a thread reclaimed or compacted memory, and the thread's cgroup. */
struct path_reclaim_cause {
    uint32_t kind; /* enum reclaim_kind */
    uint64_t cgroup;
};

/* Reclaim by a thread during a segment of another kind, which starts at `segment_ns`. */
struct path_reclaim {
    uint64_t segment_ns;
    uint64_t ns;
    struct path_reclaim_cause cause;
};

/* Cuts the time of reclaim out of the finished segments in which its thread ran or waited for no other thread, as
 * segments of their own with `is_reclaim`. To be called after path_interrupts_take. -ENOMEM. */
int path_reclaim_take(const struct flight_index *index, struct path_segments *path);

/* Adds the reclaim in other segments (of a thread that holds a lock, or does other work) as their evidence. Without
 * memory it is left out. */
void path_reclaim_find(const struct flight_index *index, const struct path_segments *path, struct path_evidence *e);

#define PATH_RECLAIM_BYTES 224

/* Writes "in direct reclaim of cgroup /docker/4f5d (memory.high 128 MiB)". Returns `out`. */
const char *path_reclaim_text(const struct path_reclaim_cause *cause, const struct path_names *names,
                              char out[PATH_RECLAIM_BYTES]);

/* Writes a line for the evidence of segments [first, end): "4.20 ms of it in direct reclaim of the node's memory". */
void path_reclaim_put(const struct path_segments *path, size_t first, size_t end, const struct path_names *names,
                      struct buf *out);
