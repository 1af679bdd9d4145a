/* io_uring and Linux AIO without a library, one request at a time or many. Where the kernel lacks them, the test is
 * skipped. */
#pragma once

#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdbool.h>
#include <stddef.h>

struct uring {
    int fd;
    unsigned *submit_tail, *submit_mask, *submit_array, *complete_head, *complete_tail, *complete_mask;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *completions;
    unsigned *submit_flags;
    bool polls;
};

struct uring uring_begin(unsigned entries, unsigned flags);
void uring_end(struct uring *u);
/* Puts `request` into the queue; uring_submit submits the queued requests. */
void uring_put(struct uring *u, const struct io_uring_sqe *request);
void uring_submit(struct uring *u, unsigned count);
/* Takes one completion, waits for it, and returns its result. */
int uring_take(struct uring *u);

struct aio_event_ring; /* the kernel's, in this process's memory */

aio_context_t aio_begin(unsigned entries);
void aio_end(aio_context_t ring);
/* Takes one event from the ring without a system call. False: the ring is empty. */
bool aio_take_unseen(aio_context_t ring, struct io_event *ret);
