/* The threads that a request gave work to. Found in one pass over the window, so that the walk need not search for each
 * wake-up again. Pure: reads only the indexed window. */
#pragma once

#include "diagnose/flight/flight_index.h"

struct request_hands;

/* For the request of socket `subject` in [begin, end]. `index` is borrowed until request_hands_free. -ENOMEM. */
int request_hands_new(const struct flight_index *index, uint64_t subject, uint64_t begin_ns, uint64_t end_ns,
                      struct request_hands **ret);
void request_hands_free(struct request_hands *hands);
DEFINE_FREEP(request_hands)

/* Returns the wake-up that gave thread `tid`, for the request, its work at `t_ns`. A thread that worked for the request
 * made this wake-up, and not by releasing a lock. The work ends when the thread waits by the same futex word again.
 * NULL if there is no such wake-up. */
const struct recorder_record *request_hands_find(const struct request_hands *hands, uint32_t tid, uint64_t t_ns);

/* Whether the work that thread `tid` has at `t` may be another request's: its handler had read several at once. */
bool request_hands_is_shared(const struct request_hands *hands, uint32_t tid, uint64_t t_ns);
/* Returns the thread of process `pid` (0: any process), other than `except_tid`, that was the last one to receive work
 * of the request in (from_ns, to_ns) and was not done with it by `to_ns`; 0 if there is no such thread. */
uint32_t request_hands_last(const struct request_hands *hands, uint32_t pid, uint32_t except_tid, uint64_t from_ns,
                            uint64_t to_ns);
/* Returns the thread that owned, at `t_ns`, the work that `tid` had received by `to_ns` (directly or through other
 * threads); 0 if unknown. */
uint32_t request_hands_had(const struct request_hands *hands, uint32_t tid, uint64_t t_ns, uint64_t to_ns);

/* Whether a wake-up by futex released a lock, by the first of these rules that applies:
 * - The wake-up gave the woken thread work of the request: no.
 * - One of the two threads takes and releases a lock at this word: yes.
 * - The waker had been given work of the request, which it has finished: no.
 * - The woken thread had been given its work before, by another word: yes. */
bool request_hands_is_release(const struct request_hands *hands, uint32_t waiter_tid,
                              const struct recorder_record *woken);
