/* The owner of a thread's work: its socket operations that belong to other requests, the arrival time and the sender of
 * the data that it read, and its earlier work for a request. Pure: reads only the indexed window. */
#pragma once

#include "diagnose/path/request_hands.h"

/* Whether requests are served on the socket of this record, rather than that it calls another service. */
bool request_work_is_served(const struct flight_index *index, const struct recorder_record *record);

/* How an operation of a thread bounds the work for the request of socket `subject`; 0: the thread works for a request
 * whose socket it does not touch itself. */
enum work_mark {
    WORK_NO_MARK,
    WORK_READ,     /* it read from the subject */
    WORK_CONSUMED, /* it read from a socket that serves no requests: an answer, a completion */
    WORK_FOREIGN,  /* it read or answered another request */
    WORK_END,      /* it finished an earlier piece of work: sent on the subject, which it does not read */
};
enum work_mark request_work_mark(const struct flight_index *index, const struct flight_event *e, uint64_t subject);
/* The latest mark of the thread in [floor, t); NULL: none. */
const struct flight_event *request_work_last_mark(const struct flight_index *index, const struct flight_list *thread,
                                                  uint64_t subject, uint64_t floor_ns, uint64_t t_ns,
                                                  enum work_mark *ret);
/* When the thread first touched another request in [from, to); UINT64_MAX: it did not. */
uint64_t request_work_first_foreign(const struct flight_index *index, const struct flight_list *thread,
                                    uint64_t subject, uint64_t from_ns, uint64_t to_ns);

/* The arrivals at a socket that a read at `t` returned: those since the read before. */
struct work_arrivals {
    const struct recorder_record *first, *last; /* NULL: none was recorded */
    bool is_one_producer;                       /* all by the thread of `last`, or from one peer */
};
struct work_arrivals request_work_arrivals(const struct flight_index *index, uint64_t cookie, uint64_t t_ns);

/* Several requests had arrived on socket `cookie` when `thread` read it at `read_ns`. If it answered as many until its
 * next read, it answered them in their order. Returns the arrival of the request of `subject`, which it answered at
 * `answer_ns`. NULL: the numbers differ. */
const struct recorder_record *request_work_arrival_in_order(const struct flight_index *index,
                                                            const struct flight_list *thread, uint64_t cookie,
                                                            uint64_t subject, uint64_t read_ns, uint64_t answer_ns);

/* Returns the thread's first send, on a socket other than `except` (a cookie; 0: any), that ended at `t_ns` or just
 * after it: a send ends just after its effect. NULL: none. */
const struct recorder_record *request_work_send_at(const struct flight_index *index, uint32_t tid, uint64_t t_ns,
                                                   uint64_t except);
/* Returns the send of this node that caused an arrival. NULL: another node sent it, or the sender is not known. Over
 * TCP, sender and receiver must agree on the sequence number. */
const struct recorder_record *request_work_sender(const struct flight_index *index,
                                                  const struct recorder_record *arrival);

/* The thread that last worked for the request of `subject` before `t`, and when it turned away from it (at most `t`).
 * False: none since `begin`. */
struct work_slice {
    uint32_t tid;
    uint64_t start_ns, end_ns; /* from its reads or sends for the request */
};
bool request_work_previous(const struct flight_index *index, uint64_t subject, uint64_t begin_ns, uint64_t t_ns,
                           struct work_slice *ret);

/* Whether thread `tid` works for the request of `subject` at `t`: the last request that it touched since `begin`. */
bool request_work_is_for(const struct flight_index *index, uint32_t tid, uint64_t subject, uint64_t begin_ns,
                         uint64_t t_ns);
/* Whether the data read from this socket at `t_ns` answers a question of the request of `subject`: a thread that worked
 * for the request made the first send or connect on the socket since the previous read. */
bool request_work_asked(const struct flight_index *index, uint64_t cookie, uint64_t subject, uint64_t begin_ns,
                        uint64_t t_ns);

/* Whether the thread woke another one at `t_ns` in a task that may work for the request of `subject` or for another
 * one: the task's request is not known, and by `end_ns` the thread sends something for other requests that it had read
 * by then. */
bool request_work_is_of_any(const struct flight_index *index, const struct flight_list *thread, uint64_t subject,
                            uint64_t t_ns, uint64_t end_ns);

/* Finds the thread that this slice gave work to by waking it, and the time when that thread was done: it next waited
 * for work again, before `t_ns`. Returns false if there is no such thread, or several, if the thread was not done by
 * then, or if the work may be another request's than `subject`'s. */
bool request_work_handed_by(const struct flight_index *index, const struct work_slice *slice, uint64_t subject,
                            uint64_t t_ns, uint32_t *ret_tid, uint64_t *ret_done_ns);

/* Whether the thread was in the middle of a request at `t`: it had read one and not answered it. */
bool request_work_is_busy(const struct flight_index *index, const struct flight_list *thread, uint64_t t_ns);

/* Returns a socket, other than `subject`, that this slice sent something on, and that was not read until `t_ns`; 0 if
 * there is no such socket. */
uint64_t request_work_unanswered(const struct flight_index *index, const struct work_slice *slice, uint64_t subject,
                                 uint64_t t_ns);
/* Whether this slice woke any other thread, itself, and not in a task of a request other than `subject`'s. */
bool request_work_hands_on(const struct flight_index *index, const struct work_slice *slice, uint64_t subject);

/* Returns the time when thread `tid`, which wakes `consumer` at `end_ns`, began the work that it then finished: when it
 * had last woken the consumer, or was woken from a wait for work. 0: not known. */
uint64_t request_work_item_start(const struct flight_index *index, uint32_t tid, uint32_t consumer, uint64_t end_ns);

/* Whether two futex words may be of one lock: the parts of a condition variable lie close to each other. */
bool request_work_is_same_lock(uint64_t word, uint64_t other);
