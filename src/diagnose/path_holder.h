/* What another thread did while a request's thread waited for it: the holder of a lock, or a thread whose connection to
 * the request is not known. Follows holders of holders. */
#pragma once

#include "diagnose/flight_index.h"
#include "diagnose/path_segments.h"

struct holder_walk {
    const struct flight_index *index;
    struct path_segments *out;
    uint32_t waiter;                    /* the thread that waited, */
    const struct recorder_record *left; /* since this switch; NULL: it does not matter */
    enum request_part_kind kind; /* of the time, whatever the thread did: `lock`, or one in which the request was ready;
                                    REQUEST_PART_UNATTRIBUTED: what the thread did */
    enum request_owner owner;    /* of what is for no known request */
    bool is_inferred;            /* as a whole */
};

/* Adds [from, end) as what thread `tid` did, which ended the wait at `end`. */
void path_holder_add(const struct holder_walk *walk, uint32_t tid, uint64_t from_ns, uint64_t end_ns);

/* The same for a lock whose holders are recorded, from their records. `left`: the switch by which a thread began to
 * wait for it, the waiter or one that it waits for; `tid` released it, 0: not known. False, and nothing is added: it is
 * no such lock. path_holder_add does this, too. */
bool path_holder_add_held(const struct holder_walk *walk, const struct recorder_record *left, uint32_t tid,
                          uint64_t from_ns, uint64_t end_ns);

/* When a wait for the lock began whose last round began at `start`: earlier rounds that ended by a timeout, or for
 * nothing, belong to it. */
uint64_t path_holder_wait_start(const struct flight_list *thread, uint64_t start_ns, uint64_t word);
