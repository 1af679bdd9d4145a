/* Frames of V8 (Node) in samples: what the BPF side needs to know of a process's V8, and the records it writes.
 *
 * JavaScript runs on the native stack: its frames have a frame pointer, whether its code is interpreted or compiled.
 * At each frame that the native walk leaves by its frame pointer, the BPF program checks whether it is a JavaScript
 * frame of V8, and finds its function: the function lies below the frame pointer. Each one is an entry
 * (interpreter/interpreter.h) with the number of its native frame (INTERPRETER_TAIL_PLACED).
 *
 * A function's name and position are emitted once, in a record of its own (struct v8_code) before the first sample
 * that needs it. Offsets and types are those that V8 publishes in its files for debuggers (symbols v8dbg_*;
 * src/resolve/interpreter/v8_layout.c). */
#pragma once

#include "probes/common/record.h"

enum { RECORD_V8_CODE = 8 }; /* struct v8_code: a function in the following samples */

/* Offsets in bytes from the start of an object; tagged pointers are 1 higher. */
struct v8_layout {
    __u16 context_first, context_last; /* types; context_last 0: no supported V8 in this process */
    __u16 shared_type, scope_type, script_type;
    __u16 not_string;     /* a type bit that no string has */
    __s16 frame_function; /* from the frame pointer; the context is in the word above */
    __u16 map_type;
    __u16 function_shared;
    __u16 shared_scope, shared_script;
    __u16 scope_flags; /* of a ScopeInfo; followed by the numbers of parameters and of locals, a word each */
    __u16 scope_variables;
    __u16 script_source, script_name, script_id;
    __u16 string_length, string_chars;
    __u16 cons_first, cons_second, sliced_parent, sliced_offset, thin_actual, external_data;
    __u8 flags; /* V8_* */
    __u8 reserved[15];
};
_Static_assert(sizeof(struct v8_layout) == 64, "table format");

#define V8_POSITIONS_FIRST                                                                                             \
    1 /* 13 and later: a ScopeInfo's flags are not a Smi, and the function's start and end precede its variables */
#define V8_MANY_LOCALS    75 /* this many or more names are in a separate table */

#define V8_TAG            1
#define V8_TAG_MASK       3
#define V8_REPRESENTATION 7
#define V8_ONE_BYTE       8
#define V8_UNCACHED       16 /* an external string whose characters cannot be read without calling it */

/* Kind of string: the low bits of its type. */
enum v8_representation { V8_SEQUENTIAL = 0, V8_CONS = 1, V8_EXTERNAL = 2, V8_SLICED = 3, V8_THIN = 5 };

/* Flags of a ScopeInfo. */
#define V8_HAS_CLASS_VARIABLE(flags) ((flags) >> 10 & 1)
#define V8_HAS_NAME(flags)           (((flags) >> 12 & 3) != 0)
#define V8_HAS_INFERRED_NAME(flags)  ((flags) >> 14 & 1)

#define V8_FILE_BYTES                1024
#define V8_NAME_BYTES                512

/* `length` characters of `width` bytes as V8 stores them: Latin-1 or UTF-16. Characters that did not fit are missing.
 */
struct v8_text {
    __u32 length;
    __u32 width; /* 0: unreadable */
};

struct v8_code { /* RECORD_V8_CODE */
    struct record_header h;
    __u64 code;  /* address of its SharedFunctionInfo; if that moves, the record is emitted again */
    __u32 check; /* over the constant part of a function: distinguishes it from others at the same address */
    __u32 line;  /* where it begins; 0: unknown */
    struct v8_text file, name;
    __u8 file_data[V8_FILE_BYTES];
    __u8 name_data[V8_NAME_BYTES];
};
_Static_assert(sizeof(struct v8_code) == 56 + V8_FILE_BYTES + V8_NAME_BYTES, "record format");

static inline int v8_text_is_sound(const struct v8_text *text, __u32 room)
{
    return text->width <= 2 && (text->width == 0 || text->length <= room / text->width);
}

static inline int v8_code_is_sound(const struct v8_code *c)
{
    return c->h.size_bytes == sizeof(*c) && v8_text_is_sound(&c->file, V8_FILE_BYTES) &&
           v8_text_is_sound(&c->name, V8_NAME_BYTES);
}
