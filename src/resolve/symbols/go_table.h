/* Go's table of functions (.gopclntab), which stripped programs keep because the runtime itself needs it:
 * Go 1.18 and later. */
#pragma once

#include "base/cleanup.h"
#include "base/cursor.h"
#include "resolve/elf/elf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct go_table { /* plain data; the file is borrowed */
    const struct elf_file *file;
    uint64_t offset, size; /* of the table in the file; the end is that of its section */
    uint64_t names, names_end, changes,
        functions; /* in the table; `changes`: of values along the code, the stack's depth */
    uint64_t text; /* address that functions' places count from */
    uint32_t count;
    uint8_t flags_at; /* in a function's record */
};

struct go_function {
    uint64_t start, end;
};

/* The section that holds it, or has to be searched for it; NULL: this is no program of Go's. */
const struct elf_section *go_table_section(const struct elf_file *file, bool *ret_is_searched);

/* -ENOENT: no such table, or of a form we do not know. */
int go_table_find(const struct elf_file *file, struct go_table *ret);

/* Functions from number `first` on, in the order of their addresses; returns how many were read. */
size_t go_table_functions(const struct go_table *t, uint32_t first, struct go_function *ret, size_t max);

/* Where in the file the name of a function stands. */
int go_table_name(const struct go_table *t, uint32_t function, uint64_t *ret_offset);

/* ... and of the function of that name, which is short. -ENOENT: there is none. */
int go_table_find_name(const struct go_table *t, const char *name, uint64_t *ret_offset);

/* Flags of a function (internal/abi/symtab.go). */
#define GO_FUNCTION_TOP_FRAME 1 /* the outermost of its stack */
#define GO_FUNCTION_SP_WRITE  2 /* puts an arbitrary value into the stack pointer */
#define GO_FUNCTION_ASSEMBLY  4

struct go_function_record {
    uint64_t start, end;
    uint64_t name_offset; /* where in the file its name stands */
    uint32_t depths;      /* from `changes` on: of the stack; 0: not told (go_depths_next) */
    uint8_t flags;
};

/* All functions, in the order of the table, which is that of their addresses where a linker made it. The table is
 * borrowed. */
struct go_table_walk;
int go_table_walk_new(const struct go_table *t, struct go_table_walk **ret);
void go_table_walk_free(struct go_table_walk *w);
DEFINE_FREEP(go_table_walk)
bool go_table_next(struct go_table_walk *w, struct go_function_record *ret);

/* How deep the stack is along a function's code: pairs of a change (zigzag) and the bytes of code for which it
 * holds (runtime.step of runtime/symtab.go; one byte a unit on x86-64). */
struct go_depths {
    struct cursor c; /* at the function's `depths` */
    uint64_t at;     /* distance from the function's start up to which `depth` holds */
    int64_t depth;   /* bytes below the return address; -1 before the first */
};
#define GO_DEPTHS_AT(cursor) ((struct go_depths){.c = (cursor), .depth = -1})

/* False: that was the last one, or the table is damaged. */
bool go_depths_next(struct go_depths *d);
