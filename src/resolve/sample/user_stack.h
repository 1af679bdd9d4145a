/* The addresses of a recorded user stack: those that the BPF side walked, and the frames above them from the stack's
 * copy, if it could not walk them all. Pipeline thread only. */
#pragma once

#include "resolve/unwind/unwind.h"

#include <linux/types.h>

#include "probes/unwind/stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interpreters;
struct losses;
struct process;
struct processes;
struct unwind_cache;

struct user_stack {
    struct processes *processes; /* borrowed, as the next two */
    struct unwind_cache *unwind_cache;
    struct interpreters *interpreters;
    uint64_t addresses[STACK_MAX_USER_FRAMES]; /* in the format of stack_record.data, leaf first */
    size_t count;
    unsigned end;              /* enum unwind_end */
    struct unwind_spans spans; /* of the frames that were walked here */
    union {
        struct stack_record record;
        char room[sizeof(struct stack_record) + 8 * (STACK_MAX_KERNEL_FRAMES + STACK_MAX_USER_FRAMES) +
                  RECORD_MAX_BYTES - STACK_COPY_BYTES];
    } walked; /* of user_stack_replace_copy */
};

/* Fills `u` with the stack of a valid record. `process` may be NULL: a copied stack is not walked. */
void user_stack_walk(struct user_stack *u, const struct stack_record *record, const struct process *process);

/* Returns the record that was walked, with the frames in place of the copied stack. Valid until the next call. */
const struct stack_record *user_stack_replace_copy(struct user_stack *u, const struct stack_record *record);

/* Prepares a walked stack for its names: reads the mappings of the process again if an address is outside all of them,
 * and drops an address of stale stack content at its end. `process` may be NULL. */
void user_stack_settle(struct user_stack *u, const struct process *process);

/* Counts an incomplete stack in `losses`, and returns the reason as text for the user; NULL: it is complete. */
const char *user_stack_count_end(const struct user_stack *u, struct losses *losses);

/* Whether the memory of the user stack has been freed while the thread was in the kernel, as during exec. */
bool user_stack_is_gone(const struct stack_record *record, const struct process *process);
