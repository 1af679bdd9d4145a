/* Parses the names that runtimes write into perf maps and jitdumps. Pure. */
#pragma once

#include "model/frame.h"

#include <stdbool.h>

struct jit_name {
    enum frame_kind kind;
    const char *function;
    const char *file; /* "": unknown */
    uint32_t line;    /* where the function begins, if the name has it; 0: unknown */
};

#define JIT_NAME_ROOM 32

/* Whether it is a JavaScript function in V8's notation: "JS:*parse /srv/app.js:10:5". */
bool jit_name_is_v8(const char *name);

/* Parses `name` in place; `ret` borrows from it. The buffer must have JIT_NAME_ROOM bytes after the string. A function
 * without a name is named by its line, "(anonymous:10)", because a file has many of them. Control characters become
 * '?'. The kind is FRAME_V8JS or FRAME_NATIVE; the names of other runtimes do not identify them. */
void jit_name_parse(char *name, struct jit_name *ret);
