/* Where V8 keeps what: which executable files hold one, and what they publish of it. V8 writes the offsets and types of
 * its objects into variables for debuggers that look at a dead process (v8dbg_*: 32-bit integers, exported by node and
 * libnode), so that no table of versions is needed; what is not told there is the same from 10 to 13 (Node 18 to 24),
 * and versions outside of that are refused. */
#pragma once

#include <linux/types.h>

#include "probes/v8.h"

#include <stdbool.h>

struct elf_file;

#define V8_FILE_MIN_BYTES (8u << 20) /* nothing that has a V8 in it is smaller */

/* False: may hold no V8, by its name: worth a look only if it is a process's program. */
bool v8_layout_is_likely(const char *path);

/* -ENOENT: no V8. -ENOTSUP: one of a version or kind (compressed pointers, another machine than x86-64) whose frames
 * cannot be read. Errors of elf.h. */
int v8_layout_read(const struct elf_file *file, struct v8_layout *ret);
