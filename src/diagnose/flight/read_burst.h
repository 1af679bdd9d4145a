/* Requests that an event loop reads one after the other before it handles any: it handles them in the same order. Pure.
 */
#pragma once

#include "diagnose/flight/flight_index.h"

#define READ_BURST_MAX 32

struct read_burst {
    uint64_t sockets[READ_BURST_MAX]; /* of the requests, in the order of their reads */
    uint32_t count;                   /* beyond the maximum: not in order */
    uint32_t handled;                 /* how many of them so far */
    bool is_over;                     /* the thread has begun to handle them */
    bool is_in_order;                 /* if is_over: the thread answers or hands on each of them, and no other
                                         request */
    uint64_t last_sent;               /* socket */
};

/* The thread read a request on this socket. */
void read_burst_read(struct read_burst *b, uint64_t socket);
/* It answered on this socket; `steps`: as read_burst_hand_over. */
void read_burst_answer(struct read_burst *b, uint64_t socket, uint32_t steps);
/* The thread handed a request on, to another thread. `steps`: how many requests it answers or hands on from here, until
 * it reads or waits for events again. Returns the request's socket; 0 if the order does not determine it. */
uint64_t read_burst_hand_over(struct read_burst *b, uint32_t steps);
/* It waits for events. */
void read_burst_end(struct read_burst *b);
