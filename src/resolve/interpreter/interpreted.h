/* The interpreter frames of one sample (struct interpreter_entry), and where they belong in its native stack. A run of
 * frames replaces the native frame that executes it. The BPF side's walk identifies that native frame; when the walk is
 * completed from a copied stack, it is identified here in the same way: the run's mark is an address within that
 * frame's part of the stack. interpreter_join then puts the frames into the stack. */
#pragma once

#include <linux/types.h>

#include "probes/unwind/stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interpreted {
    size_t count;
    uint32_t pid;
    unsigned kind;    /* enum interpreter_kind */
    unsigned end;     /* enum interpreter_end */
    size_t next_mark; /* during the native walk: marks before this index are resolved */
    bool was_walked;  /* STACK_RECORD_INTERPRETED: the BPF side searched for frames, if in vain */
    bool is_counted;  /* INTERPRETER_TAIL_COUNTED: no marks */
    bool is_placed;   /* INTERPRETER_TAIL_PLACED: no marks, each entry has its native frame */
    bool is_several;  /* INTERPRETER_TAIL_SEVERAL: runs of several interpreters */
    struct interpreter_entry entries[INTERPRETER_MAX_ENTRIES];
};

static inline bool interpreter_entry_is_mark(const struct interpreter_entry *e)
{
    return (e->code & INTERPRETER_ENTRY_MARK) != 0;
}

/* Copies the entries of a valid record; empty if it has none. */
void interpreted_read(struct interpreted *x, const struct stack_record *record);

/* Resolves marks within native frame `frame`, which occupies [low, high) of the stack. Call in order, leaf first. */
void interpreted_pass(struct interpreted *x, size_t frame, uint64_t low, uint64_t high);
