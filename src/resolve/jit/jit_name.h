/* Names as runtimes write them into perf maps and jitdumps, taken apart. Pure. */
#pragma once

#include "model/frame.h"

#include <stdbool.h>

struct jit_name {
    enum frame_kind kind;
    const char *function;
    const char *file; /* "": not told */
    uint32_t line;    /* of the function's beginning, where the name tells; 0: not told */
};

#define JIT_NAME_ROOM 32

/* Whether it is one of JavaScript's functions as V8 writes them: "JS:*parse /srv/app.js:10:5". */
bool jit_name_is_v8(const char *name);

/* Takes `name` apart in its place; `ret` borrows from it, which has room for JIT_NAME_ROOM bytes more than the text
 * has. A function without a name is called by its line, "(anonymous:10)", since there are many of them in a file.
 * Control characters become '?'. The kind is FRAME_V8JS or FRAME_NATIVE; of other runtimes, their names do not tell. */
void jit_name_parse(char *name, struct jit_name *ret);
