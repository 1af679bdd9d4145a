/* Frames of CPython in samples: what the kernel half must know of a process's interpreter, and what it writes.
 *
 * At a sample of such a process the kernel half finds the thread's state, follows its chain of interpreter frames, and
 * puts it behind the sample's own data (CPU_SAMPLE_INTERPRETED) as entries, leaf first. One C function of the
 * interpreter runs several of them: where such a run ends there is a mark, the address of a structure which that C
 * function has on its own stack; the walk of the native stack tells which native frame that is. So both stacks are
 * joined by addresses, and not by counting names.
 *
 * What a code object says of itself (names, file, table of lines) comes apart, once, in a record of its own (struct
 * python_code) ahead of the first sample that needs it: it is read at the moment of the sample, without waiting, so
 * that programs which live for a moment have names, and so that a replay does. */
#pragma once

#include "probes/common/hash.h"
#include "probes/common/record.h"

#define PYTHON_MAX_ENTRIES 1440 /* with all else that there can be in a record of RECORD_MAX_BYTES */
#define PYTHON_MAX_OWN_MARKS                                                                                           \
    440 /* of frames that each have an evaluator: of the others, whose native ones are many, too, the frames alone */

/* Offsets in the interpreter's structures; by version in src/resolve/interpreter/python_layout.c. */
struct python_layout {
    __u64 interpreters; /* address of the runtime's list of interpreters; 0: the process has no interpreter that we can
                           read */
    __u64 text_start;   /* of the mapping that holds its code */
    __u16 interpreter_next;
    __u16 interpreter_threads; /* the youngest */
    __u16 interpreter_made;    /* how many threads it has made */
    __u16 thread_next;
    __u16 thread_id;
    __u16 thread_current; /* its _PyCFrame, or, without PYTHON_CFRAMES and in 3.10, its current frame */
    __u16 thread_cframe;  /* 3.10: its CFrame */
    __u16 thread_root;    /* 3.10: the CFrame that no evaluator has */
    __u16 cframe_current; /* in _PyCFrame; its `previous` follows. 3.10: that one */
    __u16 frame_code;
    __u16 frame_previous;
    __u16 frame_instruction;
    __u16 frame_owner;  /* without PYTHON_MARKED_FRAMES: is_entry */
    __u16 code_checked; /* from there on PYTHON_CHECKED_BYTES of a code object that never change */
    __u16 code_first_line;
    __u16 code_file;
    __u16 code_name;
    __u16 code_lines;
    __u16 text_ascii;        /* sizeof(PyASCIIObject), behind which the characters of ASCII texts are */
    __u16 text_compact;      /* sizeof(PyCompactUnicodeObject) */
    __u16 code_instructions; /* where they begin in a code object; of frame objects, in the object that co_code is */
    __u8 flags;              /* PYTHON_* */
    __u8 lines;              /* enum python_lines */
    __u8 reserved[4];
};
_Static_assert(sizeof(struct python_layout) == 64, "table format");

#define PYTHON_CFRAMES                                                                                                 \
    1 /* 3.11, 3.12: the thread's state leads to its frames by a _PyCFrame; 3.10: it has some besides */
#define PYTHON_MARKED_FRAMES                                                                                           \
    2 /* 3.12 and later: a run ends with a frame that lies on the C stack; before, with is_entry */
#define PYTHON_FRAME_OBJECTS                                                                                           \
    4                     /* before 3.11: each frame is an object (PyFrameObject) and has an evaluator of its own */
#define PYTHON_IN_WORDS 8 /* 3.10: f_lasti counts instructions; before, bytes */

/* What a code object's table of lines is. */
enum python_lines {
    PYTHON_LINES_LOCATIONS = 0, /* co_linetable since 3.11 */
    PYTHON_LINES_RANGES = 1,    /* co_linetable of 3.10 */
    PYTHON_LINES_LNOTAB = 2,    /* co_lnotab; empty where all is in the first line */
    PYTHON_LINES_UNTOLD = 3,    /* it could not be read, or is too long */
    PYTHON_LINES_COUNT,
};

#define PYTHON_OWNED_BY_CSTACK 3 /* 3.14 calls it the interpreter's */
#define PYTHON_CHECKED_BYTES   72
/* The same in every version: struct PyASCIIObject, struct PyBytesObject. */
#define PYTHON_TEXT_LENGTH 16
#define PYTHON_TEXT_STATE  32
#define PYTHON_BYTES_SIZE  16
#define PYTHON_BYTES_DATA  32

/* An interpreter's frame, or a mark behind the last one of a run. */
struct python_entry {
    __u64 code;        /* address of the code object; of a mark: PYTHON_MARK | address on the native stack */
    __u32 instruction; /* bytes from the code object (python_layout.code_instructions) to the instruction at hand; of a
                          mark: 1 + number of the native frame, 0: not reached; with PYTHON_PLACED: the same of the
                          frame */
    __u32 check;       /* of the code object (python_code.check); of a mark: 0 */
};
#define PYTHON_MARK (1ULL << 63)

/* How the walk ended. */
enum python_end {
    PYTHON_END_WHOLE = 0,
    PYTHON_END_TOO_DEEP = 1, /* PYTHON_MAX_ENTRIES reached */
    PYTHON_END_BAD_READ = 2, /* memory could not be read (paged out, or no frame) */
    PYTHON_END_TORN = 3,     /* structures that do not fit together */
    PYTHON_END_INTERPRETERS =
        4, /* the thread has frames in several interpreters, and nothing tells which of its C functions runs which */
    PYTHON_END_COUNT,
};

enum interpreter_kind {
    INTERPRETER_CPYTHON = 0,
    INTERPRETER_V8 = 1,
    INTERPRETER_HOTSPOT = 2,
    INTERPRETER_COUNT,
};

/* Behind a sample's entries, so that they are found from the end. */
struct python_tail {
    __u32 entries;
    __u16 end;        /* enum python_end */
    __u8 flags;       /* PYTHON_COUNTED, PYTHON_SEVERAL, PYTHON_PLACED */
    __u8 interpreter; /* enum interpreter_kind: whose they are */
};
_Static_assert(sizeof(struct python_tail) == 8, "wire format");

/* Each frame has an evaluator of its own, and nothing on the C stack tells which: they are to be counted. Marks, if
 * any, say nothing. */
#define PYTHON_COUNTED 1
/* The process has several interpreters. Runs are in order within each alone, and may be another thread's: those are
 * this one's whose marks were reached. */
#define PYTHON_SEVERAL 2
/* Each entry is one native frame's, whose number it has; there are no marks. */
#define PYTHON_PLACED 4
/* In such an entry's number: what runs in that native frame may be another function, which this one has called: the
 * native frame is to stay. */
#define PYTHON_PLACED_CALLER (1U << 31)

/* Which code objects were told, by both halves: a table of hashes, each at its own place. */
#define PYTHON_TOLD 32768

/* Never 0. */
static inline __u64 python_told_hash(__u32 pid, __u64 code, __u32 check)
{
    return hash_mix(hash_mix(pid, code), check) | 1;
}

static inline __u32 python_told_place(__u64 hash)
{
    return (hash >> 32) % PYTHON_TOLD;
}

#define PYTHON_FILE_BYTES  1024
#define PYTHON_NAME_BYTES  512
#define PYTHON_LINES_BYTES 16384

/* A text of the interpreter as it lies there: `length` characters of the width that `state` says; what there was no
 * room for is missing. */
struct python_text {
    __u32 length;
    __u32 state; /* 0: could not be read */
};

struct python_code { /* RECORD_PYTHON_CODE */
    struct record_header h;
    __u64 code;
    __u32 check; /* of what does not change in a code object as long as it lives: tells it from others at the same
                    address */
    __s32 first_line;
    struct python_text file, name;
    __u32 lines_bytes;  /* of its table of lines, whole or nothing */
    __u16 instructions; /* as in python_layout */
    __u8 lines_kind;    /* enum python_lines */
    __u8 reserved;
    __u8 file_data[PYTHON_FILE_BYTES];
    __u8 name_data[PYTHON_NAME_BYTES];
    __u8 lines[];
};
_Static_assert(sizeof(struct python_code) == 64 + PYTHON_FILE_BYTES + PYTHON_NAME_BYTES, "wire format");

/* Bytes a character. */
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
