/* Frames of CPython in samples: what the BPF side needs to know of a process's interpreter, and the records it writes.
 *
 * At a sample of such a process the BPF program finds the thread state, follows its chain of interpreter frames, and
 * appends it to the sample as entries (interpreter/interpreter.h). One C function of the interpreter, the evaluator,
 * executes a run of consecutive frames. The mark that ends a run is the address of a structure on that C function's
 * stack.
 *
 * The metadata of a code object (names, file, line table) is emitted once, in a record of its own (struct python_code)
 * before the first sample that needs it. It is read at sample time, without sleeping, so that short-lived programs
 * have names, and replays do, too. */
#pragma once

#include "probes/common/record.h"

enum { RECORD_PYTHON_CODE = 4 }; /* struct python_code: a code object in the following samples */

#define PYTHON_MAX_OWN_MARKS                                                                                           \
    440 /* of frames that each have an evaluator; beyond that, where native frames are many as well, only the frames   \
           are emitted */

/* Offsets in the interpreter's structures, by version in src/resolve/interpreter/python_layout.c. */
struct python_layout {
    __u64 interpreters; /* address of the runtime's list of interpreters; 0: no supported interpreter in this process */
    __u64 text_start;   /* of the mapping with its code */
    __u16 interpreter_next;
    __u16 interpreter_threads; /* the youngest thread state */
    __u16 interpreter_made;    /* number of threads created */
    __u16 thread_next;
    __u16 thread_id;
    __u16 thread_current; /* its _PyCFrame or, without PYTHON_CFRAMES and in 3.10, its current frame */
    __u16 thread_cframe;  /* 3.10: its CFrame */
    __u16 thread_root;    /* 3.10: the CFrame that belongs to no evaluator */
    __u16 cframe_current; /* in _PyCFrame; its `previous` follows. 3.10: `previous` */
    __u16 frame_code;
    __u16 frame_previous;
    __u16 frame_instruction;
    __u16 frame_owner;  /* without PYTHON_MARKED_FRAMES: is_entry */
    __u16 code_checked; /* from here on PYTHON_CHECKED_BYTES of a code object never change */
    __u16 code_first_line;
    __u16 code_file;
    __u16 code_name;
    __u16 code_lines;
    __u8 text_ascii;         /* sizeof(PyASCIIObject), followed by the characters of ASCII strings */
    __u8 text_compact;       /* sizeof(PyCompactUnicodeObject) */
    __u16 code_instructions; /* start of the instructions in a code object; with frame objects, in the object co_code */
    __u8 flags;              /* PYTHON_* */
    __u8 lines;              /* enum python_lines */
    __u16 thread_context;    /* the current contextvars.Context; 0: tasks of asyncio cannot be read */
    __u16 frame_locals;      /* local variables, in the order of co_varnames */
    __u16 gil;               /* the GIL, from `interpreters`, or PYTHON_GIL_POINTER; 0: it cannot be read */
};
_Static_assert(sizeof(struct python_layout) == 64, "table format");

#define PYTHON_CFRAMES                                                                                                 \
    1 /* 3.11, 3.12: the thread state leads to its frames through a _PyCFrame; 3.10: it has CFrames as well */
#define PYTHON_MARKED_FRAMES 2 /* 3.12 and later: a run ends with a frame on the C stack; before, with is_entry */
#define PYTHON_FRAME_OBJECTS                                                                                           \
    4                     /* before 3.11: each frame is an object (PyFrameObject) and has an evaluator of its own */
#define PYTHON_IN_WORDS 8 /* 3.10: f_lasti counts instructions; before, bytes */
#define PYTHON_GIL_POINTER                                                                                             \
    16 /* 3.12 and later: each interpreter has a pointer to its GIL, at `gil`; before, all have one */

/* Format of a code object's line table. */
enum python_lines {
    PYTHON_LINES_LOCATIONS = 0, /* co_linetable since 3.11 */
    PYTHON_LINES_RANGES = 1,    /* co_linetable of 3.10 */
    PYTHON_LINES_LNOTAB = 2,    /* co_lnotab; empty if all code is on the first line */
    PYTHON_LINES_UNKNOWN = 3,   /* unreadable or too long */
    PYTHON_LINES_COUNT,
};

#define PYTHON_OWNED_BY_CSTACK 3 /* called FRAME_OWNED_BY_INTERPRETER in 3.14 */
#define PYTHON_CHECKED_BYTES   72
/* The same in all versions: struct PyASCIIObject, struct PyBytesObject. */
#define PYTHON_TEXT_LENGTH 16
#define PYTHON_TEXT_STATE  32
#define PYTHON_BYTES_SIZE  16
#define PYTHON_BYTES_DATA  32
#define PYTHON_TYPE        8  /* of any object */
#define PYTHON_TYPE_NAME   24 /* a C string */
#define PYTHON_TUPLE_SIZE  16
#define PYTHON_TUPLE_ITEMS 24
#define PYTHON_CELL        16 /* the object in a cell */
#define PYTHON_LIST_ITEMS  24 /* a pointer to them */
/* Before 3.11: the dictionary of an object of a class without `__slots__`, and in it the values if it shares its keys.
 */
#define PYTHON_DICT        16
#define PYTHON_DICT_VALUES 40
/* struct _gil_runtime_state */
#define PYTHON_GIL_HOLDER 8  /* the state of the thread that has it, or had it last */
#define PYTHON_GIL_LOCKED 16 /* int */
#define PYTHON_GIL_BYTES  208
/* _asyncio.Future and _asyncio.Task: the first callback (fut_callback0), its context (fut_context0), and the list of
 * the others (fut_callbacks; 0: none), each a tuple of the callback and its context. */
#define PYTHON_FUTURE_CALLBACK  24
#define PYTHON_FUTURE_CONTEXT   32
#define PYTHON_FUTURE_CALLBACKS 40

/* What a callback is bound to: `self` of a built-in function or of a method, the arguments of functools.partial. */
#define PYTHON_BOUND_TO 24
/* In a function: the tuple of the cells with the variables of the functions around it. */
#define PYTHON_CLOSURE       72
#define PYTHON_CLOSURE_OLD   48 /* 3.8, 3.9 */

#define PYTHON_PTHREAD_BYTES 4096 /* a struct pthread is smaller, and two threads' are further apart */

#define PYTHON_FILE_BYTES    1024
#define PYTHON_NAME_BYTES    512
#define PYTHON_LINES_BYTES   16384

/* A string as the interpreter stores it: `length` characters of the width given by `state`; characters that did not
 * fit are missing. */
struct python_text {
    __u32 length;
    __u32 state; /* 0: unreadable */
};

struct python_code { /* RECORD_PYTHON_CODE */
    struct record_header h;
    __u64 code;
    __u32 check; /* over the constant part of a code object: distinguishes it from others at the same address */
    __s32 first_line;
    struct python_text file, name;
    __u32 lines_bytes;  /* size of its line table; 0 or complete */
    __u16 instructions; /* as in python_layout */
    __u8 lines_kind;    /* enum python_lines */
    __u8 reserved;
    __u8 file_data[PYTHON_FILE_BYTES];
    __u8 name_data[PYTHON_NAME_BYTES];
    __u8 lines[];
};
_Static_assert(sizeof(struct python_code) == 64 + PYTHON_FILE_BYTES + PYTHON_NAME_BYTES, "record format");

/* Bytes per character. */
static inline __u32 python_text_width(const struct python_text *text)
{
    return text->state >> 2 & 7;
}

static inline int python_code_is_sound(const struct python_code *c)
{
    return c->h.size_bytes >= sizeof(*c) && c->lines_bytes <= PYTHON_LINES_BYTES &&
           c->h.size_bytes - sizeof(*c) >= c->lines_bytes && c->lines_kind < PYTHON_LINES_COUNT &&
           python_text_width(&c->file) <= 4 && python_text_width(&c->name) <= 4;
}
