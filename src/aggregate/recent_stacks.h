/* Where threads ran and waited in the last seconds: the innermost functions of recent CPU samples and of waits, by
 * thread and time, as evidence for requests. Two rings, in which the newest overwrite the oldest. Pipeline thread
 * only. */
#pragma once

#include "base/cleanup.h"
#include "model/sample.h"

#include <stddef.h>
#include <stdint.h>

struct recent_stacks;

#define RECENT_STACK_BYTES 104 /* of a text */

/* The caller frees `*ret`. -ENOMEM. */
int recent_stacks_new(struct recent_stacks **ret);
void recent_stacks_free(struct recent_stacks *s);
DEFINE_FREEP(recent_stacks)

/* Keeps a sample of CPU time that stands for one moment; does nothing with others, and with those without frames. */
void recent_stacks_add(struct recent_stacks *s, const struct sample *sample);

/* The newest samples of thread `tid` in [from, to), at most `max`: "leaf < caller < its caller", or "garbage
 * collection: FUNCTION" where V8, HotSpot, Go or CPython collected garbage. Borrowed until the next recent_stacks_add.
 * Returns their number. */
size_t recent_stacks_find(const struct recent_stacks *s, uint32_t tid, uint64_t from_ns, uint64_t to_ns,
                          const char **ret, size_t max);

/* Keeps the stack of a wait that began at `start_ns` and lasted until the sample's time. Of its frames those of the
 * program are kept; those of the kernel only if there are no others. Does nothing without frames. */
void recent_stacks_add_wait(struct recent_stacks *s, const struct sample *sample, uint64_t start_ns);

/* Of the waits of thread `tid`, the one with the most time in [from, to): its text, as of recent_stacks_find, and how
 * much of it is there. NULL: there is none. */
const char *recent_stacks_find_wait(const struct recent_stacks *s, uint32_t tid, uint64_t from_ns, uint64_t to_ns,
                                    uint64_t *ret_ns);
