/* Which executable files hold an interpreter of a kind, and what it says of itself in them: each is looked into once, a
 * process's program and what is named like one. Bounded. Of honest processes it is an executable and a library at most;
 * a hostile one may map thousands of what is named like one. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_file;
struct process_mapping;

#define INTERPRETER_FILES_READS 4 /* for one process at a time */

/* Of one process: {.reads = INTERPRETER_FILES_READS} at first. */
struct interpreter_files_look {
    unsigned reads; /* how many files may still be looked into */
    bool is_busy;   /* one could not be at present, or was one too many: it is to be asked for later */
};

struct interpreter_files_of {
    size_t bytes; /* of what is read of a file */
    /* By its name. */
    bool (*is_likely)(const char *path);
    /* Fills `ret`, of so many bytes. -ENOENT: there is none in it. -ENOTSUP: one that cannot be read, which is counted.
     * Errors of elf.h. */
    int (*read)(const struct elf_file *elf, bool is_likely, void *ret);
};

struct interpreter_files;

/* `of` is borrowed. */
int interpreter_files_new(const struct interpreter_files_of *of, struct interpreter_files **ret);
void interpreter_files_free(struct interpreter_files *f);
DEFINE_FREEP(interpreter_files)

struct interpreter_file {
    const void *told; /* what was read of it; until the next call */
    uint64_t bias;    /* what is added to its addresses, where it is mapped */
    uint64_t object;  /* its id */
};

/* False: it is none that can be read, or not at present. A file that was not looked into yet is, if `reads` are left.
 */
bool interpreter_files_find(struct interpreter_files *f, const struct process_mapping *m, bool is_program,
                            struct interpreter_files_look *look, struct interpreter_file *ret);

/* Where none was found: -EBUSY, or -ENOENT. */
int interpreter_files_none(const struct interpreter_files_look *look);

uint64_t interpreter_files_unsupported(const struct interpreter_files *f);
