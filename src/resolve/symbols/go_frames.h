/* The few functions of Go's runtime that leave the stack they were called on, or begin one. What a Go
 * program's .debug_frame says of them follows the assembler's own arithmetic and is wrong from there on: half
 * of a busy server's stacks (garbage collection, scheduling) go through one of them. */
#pragma once

#include "resolve/elf/elf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GO_FRAMES_MAX 256

enum go_frame_kind {
    GO_FRAME_OUTERMOST,    /* nothing called it on the stack that it runs on */
    GO_FRAME_BY_DEPTH,     /* on the stack of its caller, `depth` bytes below the return address */
    GO_FRAME_SCHEDULER,    /* the same, of one that works for no goroutine */
    GO_FRAME_BY_POINTER,   /* left by the frame pointer, whatever stack it is on */
    GO_FRAME_BY_GOROUTINE, /* on its thread's stack, for the goroutine that called it and lies on another, with `depth`
                              bytes of this one's there */
    GO_FRAME_GROWING,      /* the same, where the goroutine's stack is about to be another and tells nothing of this */
    GO_FRAME_LOST,         /* who called it is not known, and the walk says so */
    GO_FRAME_TRAMPOLINE,   /* found by its code, as others are (cfi_index.h) */
};

struct go_frame {        /* a piece of such a function, along which one thing holds */
    uint64_t start, end; /* addresses */
    enum go_frame_kind kind;
    uint32_t depth;
};

struct go_frames { /* plain data, sorted by start; all the pieces of a function, without a gap */
    struct go_frame at[GO_FRAMES_MAX];
    size_t count;
};

/* None in a file that is not Go's, or whose table we do not know (go_table.h). */
void go_frames_find(const struct elf_file *f, struct go_frames *ret);

/* Whether such a function starts there. */
bool go_frames_have(const struct go_frames *frames, uint64_t start);
