/* The walk of a user stack in user space: for stacks that the kernel half had to leave because it did not
 * have the rows yet, and sent as a copy. The same rules and the same step (probes/unwind/unwind_step.h), so that a
 * stack comes out the same on either side. */
#pragma once

#include <linux/types.h>

#include "probes/cpu.h"
#include "probes/unwind/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interpreted;
struct process;
struct unwind_cache;

/* What was copied of a stack. Borrowed. */
struct unwind_piece {
    uint64_t address;
    const void *data;
    size_t bytes;
};

/* Pieces of a stack, and the registers of the frame to start from. */
struct unwind_copy {
    struct unwind_registers registers;
    bool interrupted;              /* registers.ip is exact: a leaf, or interrupted by a signal */
    struct unwind_piece pieces[2]; /* the second: of the stack that a signal interrupted, where its own is another */
    const uint64_t *leaf;          /* x86-64: UNWIND_LEAF_REGISTERS of the frame to start from; NULL: not known */
    struct unwind_goroutine goroutine; /* that the thread works for; zeros: nobody said */
    uint64_t *ret_last;                /* the last address that was asked for; NULL: nobody wants it */
    uint8_t *ret_cfa; /* enum unwind_cfa: by what the last frame was left, or was to be; NULL: nobody wants it */
    struct interpreted *interpreted; /* told of every frame's part of the stack; NULL: nobody wants it */
    size_t frames_before; /* how many frames there are up to the one to start from, which is the last of them */
};

/* The rule that holds at `address`. 0; UNWIND_END_NO_CFI: go on by the frame pointer; another enum
 * unwind_end: stop. */
typedef int (*unwind_rule_fn)(void *context, uint64_t address, struct unwind_rule *ret_rule);

/* Walks up from the frame of `copy` (which is not handed out again): fills `ret_frames` as cpu_sample.data
 * has them, at most `max`, and sets `*ret_count`. Returns how the walk ended (enum unwind_end). */
int unwind_walk(const struct unwind_copy *copy, unwind_rule_fn rule, void *context, uint64_t *ret_frames, size_t max,
                size_t *ret_count);

/* The frames above those of a sample whose stack was copied, by the process's mappings and the cache's
 * tables. Without a copy: no frames, and the record's own end; so, too, where what was wanted had not been
 * copied: with the rows that were missing, the stack itself would have been walked. `walks_code`: code that was made at
 * run time keeps no frame pointers (interpreters_walk_code); the stack ends there, and for want of rows where they were
 * missing: with them the kernel half goes on. */
int unwind_finish_sample(const struct cpu_sample *record, const struct process *process, struct unwind_cache *cache,
                         bool walks_code, struct interpreted *interpreted, uint64_t *ret_frames, size_t max,
                         size_t *ret_count);
