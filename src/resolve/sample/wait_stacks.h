/* User stacks of waits that came ahead of the request they belong to (RECORD_REQUEST_STACK), because the kernel
 * half could not walk them to their end: kept by process and time until the request's own record asks for
 * them. Bounded: the oldest go first, and a request that asks for one that has gone is told so. Pipeline
 * thread only. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct wait_stacks;

int wait_stacks_new(struct wait_stacks **ret);
void wait_stacks_free(struct wait_stacks *w);
DEFINE_FREEP(wait_stacks)

/* Addresses as cpu_sample.data has them; `end`: enum unwind_end. */
void wait_stacks_put(struct wait_stacks *w, uint32_t pid, uint64_t time_ns, const uint64_t *addresses, size_t count,
                     unsigned end);

/* Fills `ret`, returns how many; -ENOENT when it is not there. */
int wait_stacks_find(const struct wait_stacks *w, uint32_t pid, uint64_t time_ns, uint64_t *ret, size_t max,
                     unsigned *ret_end);
