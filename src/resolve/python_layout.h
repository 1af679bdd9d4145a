/* Where CPython keeps what, by version: which executable files hold an interpreter, and the offsets in its structures. Offsets are
 * those of release builds for 64-bit machines, taken from the headers of each version (Include/internal); from 3.13 on the
 * runtime itself publishes most of them (_Py_DebugOffsets) and is believed. */
#pragma once

#include <linux/types.h>

#include "../../probes/python.h"

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

/* -ENOENT: no interpreter. -ENOTSUP: one of a version or kind whose frames cannot be read (before 3.11, after 3.13, or without
 * global lock). Errors of elf.h. */
int python_layout_read(const struct elf_file *file, struct python_file *ret);
