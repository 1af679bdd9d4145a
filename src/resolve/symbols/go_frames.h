/* The few functions of Go's runtime that switch away from the stack they were called on, or start one. For these, a
 * Go program's .debug_frame follows the assembler's own arithmetic and is wrong from the switch on. Half of a busy
 * server's stacks (garbage collection, scheduling) pass through one of them. */
#pragma once

#include "resolve/elf/elf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GO_FRAMES_MAX 256

enum go_frame_kind {
    GO_FRAME_OUTERMOST,    /* no caller on the stack that it runs on */
    GO_FRAME_BY_DEPTH,     /* on its caller's stack, `depth` bytes below the return address */
    GO_FRAME_SCHEDULER,    /* the same, in the scheduler: it runs for no goroutine */
    GO_FRAME_BY_POINTER,   /* unwound by the frame pointer, whatever stack it is on */
    GO_FRAME_BY_GOROUTINE, /* on the thread's stack, on behalf of the goroutine that called it; that goroutine's own
                              stack holds `depth` bytes of this frame */
    GO_FRAME_GROWING,    /* the same, but the goroutine's stack is about to be replaced and has no data of this frame */
    GO_FRAME_LOST,       /* the caller is unknown; the walk is marked incomplete */
    GO_FRAME_TRAMPOLINE, /* found by its code, like other trampolines (cfi_index.h) */
};

struct go_frame {        /* a range of such a function with one rule */
    uint64_t start, end; /* addresses */
    enum go_frame_kind kind;
    uint32_t depth;
};

struct go_frames { /* plain data, sorted by start; the ranges of a function have no gaps */
    struct go_frame at[GO_FRAMES_MAX];
    size_t count;
};

/* Empty for a file that is not a Go program, or whose table is in an unknown format (go_table.h). */
void go_frames_find(const struct elf_file *f, struct go_frames *ret);

/* True when such a function starts at `start`. */
bool go_frames_have(const struct go_frames *frames, uint64_t start);
