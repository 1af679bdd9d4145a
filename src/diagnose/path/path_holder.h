/* What another thread did while a request's thread waited for it: the holder of a lock, or a thread whose connection to
 * the request is not known. Follows holders of holders. */
#pragma once

#include "diagnose/flight/flight_index.h"
#include "diagnose/path/path_segments.h"

struct holder_walk {
    const struct flight_index *index;
    struct path_segments *out;
    uint32_t waiter;                    /* the thread that waited, */
    const struct recorder_record *left; /* since this switch; NULL: it does not matter */
    /* Kind of the time: REQUEST_PART_LOCK, or a kind of time when the request was ready, whatever the thread did;
     * REQUEST_PART_UNATTRIBUTED: the kind follows the thread's activity. */
    enum request_part_kind kind;
    enum request_owner owner; /* of activity that is for no known request */
    bool is_inferred;         /* as a whole */
    bool is_gil;              /* set by path_holder_add_held: the lock is the GIL of a Python interpreter */
};

/* Adds [from_ns, end_ns) with the activity of thread `tid`, which ended the wait at `end_ns`. */
void path_holder_add(const struct holder_walk *walk, uint32_t tid, uint64_t from_ns, uint64_t end_ns);

/* Adds the same for a lock whose holders are recorded, from the records of its holders. `left`: the switch that began
 * the wait of a thread for the lock; this thread is the waiter or a thread that it waits for. `tid` released the lock;
 * 0: not known. Returns false and adds nothing if it is not such a lock. path_holder_add does this, too. */
bool path_holder_add_held(const struct holder_walk *walk, const struct recorder_record *left, uint32_t tid,
                          uint64_t from_ns, uint64_t end_ns);

/* Returns when the thread began to wait for the lock. `start_ns`: when it last retried to take it; earlier retries that
 * timed out, or did not get the lock, belong to the same wait. */
uint64_t path_holder_wait_start(const struct flight_list *thread, uint64_t start_ns, uint64_t word);
