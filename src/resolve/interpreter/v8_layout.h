/* Layouts of V8's objects, and detection of the executable files that hold V8. V8 publishes offsets and object types
 * for post-mortem debuggers in variables (v8dbg_*: 32-bit integers, exported by node and libnode), so no table of
 * versions is needed. Unpublished offsets are the same from V8 10 to 13 (Node 18 to 24); other versions are
 * refused. */
#pragma once

#include <linux/types.h>

#include "probes/v8.h"

#include <stdbool.h>

struct elf_file;

#define V8_FILE_MIN_BYTES (8u << 20) /* smaller files cannot hold V8 */

/* Whether the file's name suggests V8; other files are read only if they are a process's program. */
bool v8_layout_is_likely(const char *path);

/* -ENOENT: no V8. -ENOTSUP: a V8 whose frames cannot be read: another version, pointer compression, not x86-64. Errors
 * of elf.h. */
int v8_layout_read(const struct elf_file *file, struct v8_layout *ret);
