/* The few functions of Go's runtime that leave the stack they were called on, or begin one. What a Go
 * program's .debug_frame says of them follows the assembler's own arithmetic and is wrong from there on: half
 * of a busy server's stacks (garbage collection, scheduling) go through one of them. */
#pragma once

#include "resolve/elf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GO_FRAMES_MAX 48

enum go_frame_kind {
    GO_FRAME_OUTERMOST,  /* nothing called it on the stack that it runs on */
    GO_FRAME_PUSHED,     /* it begins with `push %rbp; mov %rsp, %rbp`, and is left by that */
    GO_FRAME_BY_POINTER, /* its frame pointer leads to its caller, once it is set */
    GO_FRAME_LOST,       /* it keeps no frame pointer: who called it is not known, and the walk says so */
    GO_FRAME_TRAMPOLINE, /* found by its code, as others are (cfi_index.h) */
};

struct go_frame {
    uint64_t start, end; /* addresses */
    enum go_frame_kind kind;
};

struct go_frames { /* plain data, sorted by start */
    struct go_frame at[GO_FRAMES_MAX];
    size_t count;
};

/* None in a file that is not Go's, or whose table we do not know (go_table.h). */
void go_frames_find(const struct elf_file *f, struct go_frames *ret);

bool go_frames_have(const struct go_frames *frames, uint64_t start);
