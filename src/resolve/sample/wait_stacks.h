/* User stacks of waits in requests, which arrive before the request's record (RECORD_REQUEST_STACK) if the BPF side
 * could not walk them completely. Stored by process and time until the request's record refers to them. Bounded ring
 * buffer: the oldest stacks are overwritten; a later lookup of one returns -ENOENT. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct wait_stacks;

int wait_stacks_new(struct wait_stacks **ret);
void wait_stacks_free(struct wait_stacks *w);
DEFINE_FREEP(wait_stacks)

/* Stores a stack. Addresses are in the format of stack_record.data; `end`: enum unwind_end. */
void wait_stacks_put(struct wait_stacks *w, uint32_t pid, uint64_t time_ns, const uint64_t *addresses, size_t count,
                     unsigned end);

/* Copies a stack to `ret`, at most `max` addresses; returns their number. -ENOENT: it is not stored. */
int wait_stacks_find(const struct wait_stacks *w, uint32_t pid, uint64_t time_ns, uint64_t *ret, size_t max,
                     unsigned *ret_end);
