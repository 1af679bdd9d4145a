/* User stacks of waits in requests, which arrive before the request's record (RECORD_REQUEST_STACK) if the BPF side
 * could not walk them completely. Stored by process and time until the request's record refers to them. Bounded ring
 * buffer: the oldest stacks are overwritten; a later lookup of one returns -ENOENT. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct wait_stacks;

/* The caller frees `*ret`. -ENOMEM. */
int wait_stacks_new(struct wait_stacks **ret);
void wait_stacks_free(struct wait_stacks *w);
DEFINE_FREEP(wait_stacks)

/* Stores a copy of a stack, under the process and time of its record. Addresses are in the format of
 * stack_record.data, leaf first; `end`: enum unwind_end. More than REQUEST_USER_FRAMES are cut, and `end` says so. */
void wait_stacks_put(struct wait_stacks *w, uint32_t pid, uint64_t time_ns, const uint64_t *addresses, size_t count,
                     unsigned end);

/* Copies a stack to `ret`, at most `max` addresses; returns their number and sets `*ret_end`. -ENOENT: it is not
 * stored; both are unchanged. */
int wait_stacks_find(const struct wait_stacks *w, uint32_t pid, uint64_t time_ns, uint64_t *ret, size_t max,
                     unsigned *ret_end);
