/* Where threads ran in the last seconds: the innermost functions of recent CPU samples, by thread and time, as evidence
 * for requests. A ring: the newest samples overwrite the oldest. Pipeline thread only. */
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
