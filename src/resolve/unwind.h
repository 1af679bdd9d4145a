/* The walk of a user stack in user space: for stacks that the kernel half had to leave because it did not
 * have the rows yet, and sent as a copy. The same rules and the same step (probes/unwind_step.h), so that a
 * stack comes out the same on either side. */
#pragma once

#include <linux/types.h>

#include "../../probes/cpu.h"
#include "../../probes/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct process;
struct unwind_cache;

/* A piece of a stack, and the registers of the frame to start from. Borrowed. */
struct unwind_copy {
    struct unwind_registers registers;
    bool interrupted; /* registers.ip is exact: a leaf, or interrupted by a signal */
    uint64_t address; /* of stack[0] */
    const void *stack;
    size_t stack_bytes;
    const uint64_t *leaf; /* x86-64: UNWIND_LEAF_REGISTERS of the frame to start from; NULL: not known */
    uint64_t *ret_last;   /* the last address that was asked for; NULL: nobody wants it */
};

/* The rule that holds at `address`. 0; UNWIND_END_NO_CFI: go on by the frame pointer; another enum
 * unwind_end: stop. */
typedef int (*unwind_rule_fn)(void *context, uint64_t address, struct unwind_rule *ret_rule);

/* Walks up from the frame of `copy` (which is not handed out again): fills `ret_frames` as cpu_sample.data
 * has them, at most `max`, and sets `*ret_count`. Returns how the walk ended (enum unwind_end). */
int unwind_walk(const struct unwind_copy *copy, unwind_rule_fn rule, void *context, uint64_t *ret_frames,
                size_t max, size_t *ret_count);

/* The frames above those of a sample whose stack was copied, by the process's mappings and the cache's
 * tables. Without a copy: no frames, and the record's own end; so, too, where the copy was too short: with
 * the rows that were missing, the stack itself would have been walked. */
int unwind_finish_sample(const struct cpu_sample *record, const struct process *process,
                         struct unwind_cache *cache, uint64_t *ret_frames, size_t max, size_t *ret_count);
