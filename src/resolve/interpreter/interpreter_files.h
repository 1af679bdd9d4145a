/* Cache of executable files that hold an interpreter of one kind, and of the data read from them. Each file is read
 * once: a process's program, and files whose names suggest an interpreter. Bounded: an ordinary process has an
 * executable and one library at most, but a hostile one may map thousands of files with such names. Pipeline thread
 * only. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_file;
struct process_mapping;

#define INTERPRETER_FILES_READS 4 /* per process and call */

/* Read budget of one pass over a process's mappings. Initialise with {.reads = INTERPRETER_FILES_READS}. */
struct interpreter_files_look {
    unsigned reads; /* remaining files that may be read */
    bool is_busy;   /* a file could not be read at present, or the budget ran out: try again later */
};

struct interpreter_files_of {
    size_t bytes; /* size of the data that `read` fills in */
    /* Whether the file's name suggests an interpreter. */
    bool (*is_likely)(const char *path);
    /* Fills `ret` (`bytes` bytes). -ENOENT: the file holds no interpreter. -ENOTSUP: it holds one that cannot be read,
     * which is counted. Errors of elf.h. */
    int (*read)(const struct elf_file *elf, bool is_likely, void *ret);
};

struct interpreter_files;

/* `of` is borrowed. -ENOMEM. */
int interpreter_files_new(const struct interpreter_files_of *of, struct interpreter_files **ret);
void interpreter_files_free(struct interpreter_files *f);
DEFINE_FREEP(interpreter_files)

struct interpreter_file {
    const void *contents; /* what `read` filled in; valid until the next call */
    uint64_t bias;        /* load bias: added to the file's addresses */
    uint64_t object;      /* object id */
};

/* Looks up the file of a mapping; reads it if it is new and the budget allows. False: it holds no readable interpreter,
 * or cannot be read at present (look->is_busy). */
bool interpreter_files_find(struct interpreter_files *f, const struct process_mapping *m, bool is_program,
                            struct interpreter_files_look *look, struct interpreter_file *ret);

/* The error to return when no file was found: -EBUSY if `look->is_busy`, else -ENOENT. */
int interpreter_files_none(const struct interpreter_files_look *look);

/* Files with an interpreter that cannot be read. */
uint64_t interpreter_files_unsupported(const struct interpreter_files *f);
