/* The stacks of launches whose work on the GPU is not known to be over, by process and number of the launch. Bounded in
 * bytes and in number: the oldest ones go first. */
#pragma once

#include "base/cleanup.h"

#include <linux/types.h>

#include "probes/unwind/stack.h"

#include <stddef.h>
#include <stdint.h>

#define LAUNCH_STACKS_MAX 16384u

struct launch_stacks;

/* `max_bytes`: of the records; a single larger one is kept all the same. The caller frees `*ret`. -ENOMEM. */
int launch_stacks_new(size_t max_bytes, struct launch_stacks **ret);
void launch_stacks_free(struct launch_stacks *l);
DEFINE_FREEP(launch_stacks)

/* Copies a RECORD_GPU_LAUNCH. It replaces one of the same process and number. -ENOMEM. */
int launch_stacks_put(struct launch_stacks *l, const struct stack_record *record);

/* Borrowed until the next put or forget; NULL: unknown. */
const struct stack_record *launch_stacks_get(const struct launch_stacks *l, uint32_t pid, uint32_t launch);

/* Drops those of a process. */
void launch_stacks_forget(struct launch_stacks *l, uint32_t pid);
