/* Walks copied user stacks in user space: those that the BPF side could not walk because it did not have the unwind
 * table yet. Uses the same rules and the same step function (probes/unwind/unwind_step.h), so that a stack is the same
 * on either side. Pipeline thread only. */
#pragma once

#include <linux/types.h>

#include "probes/unwind/stack.h"
#include "probes/unwind/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct process;
struct unwind_cache;

/* One copied range of stack memory. Borrowed. */
struct unwind_piece {
    uint64_t address;
    const void *data;
    size_t bytes;
};

/* Where the frames that a walk has passed are on the stack: frame number `first` + i, counted from the leaf, has
 * [sp[i], sp[i + 1]). */
struct unwind_spans {
    size_t first, count;
    uint64_t sp[STACK_MAX_USER_FRAMES + 2];
};

/* A copied stack, and the registers of the frame to start from. */
struct unwind_copy {
    struct unwind_registers registers;
    bool interrupted;                  /* registers.ip is exact: a leaf, or interrupted by a signal */
    struct unwind_piece pieces[2];     /* the second: the stack that a handler on its own stack interrupted */
    const uint64_t *leaf;              /* x86-64: UNWIND_LEAF_REGISTERS of the starting frame; NULL: unknown */
    struct unwind_goroutine goroutine; /* the goroutine that the thread runs; zeros: unknown */
    uint64_t *ret_last;                /* set to the last address read; may be NULL */
    uint8_t *ret_cfa;                  /* set to the enum unwind_cfa of the last step, successful or not; may be NULL */
    struct unwind_spans *spans;        /* receives the starting frame, and each frame above it; may be NULL */
};

/* Finds the rule at `address`. 0: found; UNWIND_END_NO_CFI: walk by frame pointer; another enum unwind_end: stop. */
typedef int (*unwind_rule_fn)(void *context, uint64_t address, struct unwind_rule *ret_rule);

/* Walks up from the frame of `copy`, which is not returned again: fills `ret_frames`, at most `max`, in the format of
 * stack_record.data, and sets `*ret_count`. Returns how the walk ended (enum unwind_end). */
int unwind_walk(const struct unwind_copy *copy, unwind_rule_fn rule, void *context, uint64_t *ret_frames, size_t max,
                size_t *ret_count);

/* Finishes the user stack of a sample from its stack copy: fills `ret_frames` with the frames above the recorded ones,
 * by the process's mappings and the cached unwind tables. `max`: at most STACK_MAX_USER_FRAMES. `ret_spans` begins with
 * the last recorded frame. Returns how the stack ends (enum unwind_end).
 *
 * Without a copy: no frames, and record->user_end. If the record's walk stopped for a missing table, and this walk
 * needs memory that was not copied, it returns record->user_end as well: with the table, the BPF side would have walked
 * the stack itself. `walks_code`: JIT code keeps no frame pointers (interpreters_walk_code), so this walk stops there;
 * if a table was missing it returns record->user_end, because the BPF side continues once it has the table. */
int unwind_finish_sample(const struct stack_record *record, const struct process *process, struct unwind_cache *cache,
                         bool walks_code, uint64_t *ret_frames, size_t max, size_t *ret_count,
                         struct unwind_spans *ret_spans);
