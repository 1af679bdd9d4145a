/* Which socket a thread waited for, and what TCP had to do on it meanwhile. Pure. */
#pragma once

#include "diagnose/flight/flight_index.h"

/* The cookie of the socket that the system call of `left`, a wait that ended at `end`, was about: the thread's next
 * receive or send, or the connect before. 0: not known. */
uint64_t path_socket_of_wait(const struct flight_list *thread, const struct recorder_record *left, uint64_t end_ns);

/* Returns the last call on socket `cookie` in [from_ns, to_ns) (probes/recorder/client_call.h), in any number of sends
 * since the last receive. 0: not known, or different calls are in progress, as on a connection that several requests
 * share. */
int path_socket_call(const struct flight_index *index, uint64_t cookie, uint64_t from_ns, uint64_t to_ns);

/* Returns how many segments TCP sent again on socket `cookie` in [from_ns, to_ns). If it sent any, sets `ret_last_ns`
 * to the time of the last. */
uint32_t path_socket_retransmissions(const struct flight_index *index, uint64_t cookie, uint64_t from_ns,
                                     uint64_t to_ns, uint64_t *ret_last_ns);
