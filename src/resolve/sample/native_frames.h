/* Names the native frames of a user stack: from an address to the mapping of the process, the file offset and the
 * function's name. Code without a file has a name if its runtime describes it (jit.h). Pipeline thread only. */
#pragma once

#include "model/frame.h"

#include <stddef.h>
#include <stdint.h>

struct jits;
struct line_objects;
struct process;
struct string_chunk;
struct symbols;

struct native_frames {
    struct symbols *symbols;           /* borrowed, as the next two */
    struct jits *jits;                 /* NULL: JIT code has no names */
    struct line_objects *line_objects; /* receives the files of frames; NULL: source lines are not wanted */
    struct string_chunk *strings;      /* of the sample's frames; the chunk being filled is first */
    size_t string_bytes;
    uint64_t unanswered; /* frames of the sample whose file timed out; they have no name */
};

/* Begins a sample: frames of the previous one become invalid. */
void native_frames_reset(struct native_frames *n);
/* Frees the memory of strings. */
void native_frames_clear(struct native_frames *n);

/* Fills `ret` with the frames of `count` addresses in the format of stack_record.data. `process` may be NULL: frames
 * have only addresses. Strings are valid until native_frames_reset or until the process changes. */
void native_frames_name(struct native_frames *n, const struct process *process, const uint64_t *addresses, size_t count,
                        struct frame *ret);
