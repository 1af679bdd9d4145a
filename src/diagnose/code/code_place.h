/* The place in the code that a stack stands for: the innermost function of the user's own code (code_origin.h), its
 * line, and the functions that it ran there. Names come from untrusted files: unprintable bytes are replaced, long
 * names truncated. */
#pragma once

#include "model/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CODE_FUNCTION_BYTES 64
#define CODE_FILE_BYTES     48
#define CODE_RUNS_BYTES     104
#define CODE_TEXT_BYTES     (CODE_FUNCTION_BYTES + CODE_FILE_BYTES + CODE_RUNS_BYTES + 48)

struct code_place {
    char function[CODE_FUNCTION_BYTES]; /* "handle_x()"; "": the stack has no own code */
    char file[CODE_FILE_BYTES];         /* its base name: "app.py"; "": unknown */
    uint32_t line;                      /* 0: unknown */
    bool is_first_line;                 /* `line` is where the function begins: the line that runs is unknown */
    /* What the function ran: the leaf, "siphash13"; "": itself. Without a function: the innermost frames, "leaf <
     * caller < its caller"; "": the stack is empty. Of a garbage collection: "garbage collection: FUNCTION". */
    char runs[CODE_RUNS_BYTES];
};

/* Returns the index of the innermost frame of the user's own code; `count` if no frame is the user's. Frames are leaf
 * first. */
size_t code_place_own_frame(const struct frame *frames, size_t count);
void code_place_of(const struct frame *frames, size_t count, struct code_place *ret);

/* "handle_x() app.py:31, running siphash13", or "handleX() (begins at app.js:31)"; without own code: "siphash13 <
 * _Py_HashBytes". Returns `out`. */
const char *code_place_text(const struct code_place *p, char out[CODE_TEXT_BYTES]);

/* The function's name for display: "com.example.App.handle()" of "void com.example.App.handle(int)". */
const char *code_place_function(const char *function, char out[CODE_FUNCTION_BYTES]);
