/* Where CPython keeps what, by version: which executable files hold an interpreter, and the offsets in its structures.
 * Offsets are those of release builds for 64-bit machines, taken from the headers of each version (Include/internal);
 * from 3.13 on the runtime itself publishes most of them (_Py_DebugOffsets) and is believed. Before 3.11 no symbol
 * tells the version: what the file exports does. */
#pragma once

#include <linux/types.h>

#include "probes/python.h"

#include <stdbool.h>
#include <stdint.h>

struct elf_file;

/* What an executable file has of CPython. */
struct python_file {
    struct python_layout layout; /* without addresses: `interpreters` is an offset in the runtime */
    uint64_t runtime_vaddr;
};

/* False: may not be an interpreter, by its name. */
bool python_layout_is_likely(const char *path);

/* `is_likely`: by its name, and worth reading the larger of its two tables of symbols; what exports its interpreter to
 * extension modules has that in the smaller one. -ENOENT: no interpreter. -ENOTSUP: one of a version or kind whose
 * frames cannot be read (before 3.8, after 3.14, or without global lock). Errors of elf.h. */
int python_layout_read(const struct elf_file *file, bool is_likely, struct python_file *ret);
