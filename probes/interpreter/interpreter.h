/* The frames of an interpreter in a stack record (STACK_RECORD_INTERPRETED), and which metadata of its code was
 * emitted. The same for all interpreters: what differs is in python.h, v8.h and hotspot.h.
 *
 * A frame is an entry, leaf first: the address of its code (a code object, a function, a method). Entries join the
 * native frames of the thread in one of three ways:
 *   - One native function, the evaluator, executes a run of consecutive frames. Each run ends with a mark: an address
 * on the stack of that function, which identifies the native frame for the native unwinder. So the two stacks are
 * joined by addresses, not by counting function names.
 *   - INTERPRETER_TAIL_COUNTED: each frame has an evaluator of its own, but nothing on the stack identifies it.
 *   - INTERPRETER_TAIL_PLACED: each frame is a native frame, whose number the entry contains.
 *
 * The metadata of code (names, file, lines) is emitted once, in a record of its own before the first sample that needs
 * it. */
#pragma once

#include "probes/common/hash.h"

enum interpreter_kind {
    INTERPRETER_CPYTHON = 0,
    INTERPRETER_V8 = 1,
    INTERPRETER_HOTSPOT = 2,
    INTERPRETER_COUNT,
};

#define INTERPRETER_MAX_ENTRIES 1440 /* together with everything else, fits a record of RECORD_MAX_BYTES */

/* An interpreter's frame, or the mark after the last frame of a run. */
struct interpreter_entry {
    __u64 code;        /* address of the code; of a mark: INTERPRETER_ENTRY_MARK | address on the native stack */
    __u32 instruction; /* byte offset from the code's address to the current instruction; of a mark: 1 + number of the
                          native frame, 0: not reached; with INTERPRETER_TAIL_PLACED: INTERPRETER_ENTRY_* below */
    __u32 check;       /* over the constant part of the code's metadata: distinguishes it from other code at the same
                          address; 0: unreadable; of a mark: 0 */
};
#define INTERPRETER_ENTRY_MARK (1ULL << 63)
/* With INTERPRETER_TAIL_PLACED: 1 + number of the native frame. */
#define INTERPRETER_ENTRY_FRAME 0xfffU
/* Above it: 1 + position in the code, as its runtime counts; 0: unknown. */
#define INTERPRETER_ENTRY_POSITION_SHIFT 12
#define INTERPRETER_ENTRY_POSITION_MAX   0x7ffffU
/* That native frame may be executing another function, called by this one, so the native frame must be kept. */
#define INTERPRETER_ENTRY_CALLER (1U << 31)

/* How the walk of the interpreter's frames ended. */
enum interpreter_end {
    INTERPRETER_END_WHOLE = 0,
    INTERPRETER_END_TOO_DEEP = 1, /* INTERPRETER_MAX_ENTRIES reached */
    INTERPRETER_END_BAD_READ = 2, /* memory could not be read (paged out, or not a frame) */
    INTERPRETER_END_TORN = 3,     /* inconsistent structures */
    INTERPRETER_END_SEVERAL =
        4, /* the thread has frames in several interpreters, and no way to assign its C functions to them */
    INTERPRETER_END_COUNT,
};

/* At the end of a record's entries, which are located from here. */
struct interpreter_tail {
    __u32 entries;
    __u16 end;        /* enum interpreter_end */
    __u8 flags;       /* INTERPRETER_TAIL_* */
    __u8 interpreter; /* enum interpreter_kind of the entries */
};
_Static_assert(sizeof(struct interpreter_tail) == 8, "record format");

/* Each frame has an evaluator of its own, but nothing on the C stack identifies it: evaluators must be counted. Marks,
 * if any, are meaningless. */
#define INTERPRETER_TAIL_COUNTED 1
/* The process has several interpreters. Runs are in order only within each interpreter, and may belong to other
 * threads: the runs of this thread are the runs whose marks were reached. */
#define INTERPRETER_TAIL_SEVERAL 2
/* Each entry belongs to one native frame, whose number it contains; there are no marks. Several consecutive entries may
 * belong to the same frame: functions that a compiler inlined, innermost first. */
#define INTERPRETER_TAIL_PLACED 4

/* The code whose record was emitted, shared with user space: a table of hashes, each at the index derived from it. */
#define EMITTED_CODES_MAX 32768

/* Never 0. */
static inline __u64 emitted_code_hash(__u32 pid, __u64 code, __u32 check)
{
    return hash_mix(hash_mix(pid, code), check) | 1;
}

static inline __u32 emitted_code_index(__u64 hash)
{
    return (hash >> 32) % EMITTED_CODES_MAX;
}
