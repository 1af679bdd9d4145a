/* Which files the page cache holds, of those that processes have open or mapped and of given folders. Each file is
 * measured once, however many processes have it. */
#pragma once

#include "base/cleanup.h"
#include "memory_report/memory_report.h"

struct memory_files;

/* 0 or -ENOMEM; the caller frees `*ret`. */
int memory_files_new(struct memory_files **ret);
void memory_files_free(struct memory_files *f);
DEFINE_FREEP(memory_files)

/* Adds the regular files that a process has open or mapped. */
void memory_files_add_process(struct memory_files *f, uint32_t pid);
/* Adds a file, or all files of a folder and of the folders below it on the same file system. -errno of `path`. */
int memory_files_add_path(struct memory_files *f, const char *path);

/* The files with pages in the page cache, in no order; borrowed from `f`. Sets the members of `ret` about files. */
void memory_files_report(struct memory_files *f, struct memory_report *ret);
