/* Layouts of CPython's structures by version, and detection of the executable files that hold an interpreter. Offsets
 * hold for release builds for 64-bit machines; they come from the headers of each version (Include/internal). From 3.13
 * on the runtime publishes most of them (_Py_DebugOffsets), and the published ones are used. Before 3.11 no symbol
 * gives the version; it is derived from the functions that the file exports. */
#pragma once

#include <linux/types.h>

#include "probes/python.h"

#include <stdbool.h>
#include <stdint.h>

struct elf_file;

/* The data read from an executable file. */
struct python_file {
    struct python_layout layout; /* without addresses: `interpreters` is an offset within the runtime */
    uint64_t runtime_vaddr;
};

/* Whether the file's name suggests an interpreter. */
bool python_layout_is_likely(const char *path);

/* `is_likely`: the name suggests an interpreter, so .symtab is read if .dynsym has no interpreter; a program that
 * exports the interpreter to extension modules has it in .dynsym, the smaller table. -ENOENT: no interpreter. -ENOTSUP:
 * an interpreter whose frames cannot be read (before 3.8, after 3.14, or free-threaded). Errors of elf.h. */
int python_layout_read(const struct elf_file *file, bool is_likely, struct python_file *ret);
