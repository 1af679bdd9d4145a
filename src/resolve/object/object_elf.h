/* Opens an object's file as ELF. */
#pragma once

#include "resolve/elf/elf.h"
#include "resolve/object/object.h"

/* Returns 0 and a file that the caller frees, or an error of object_open or elf_open. A timeout here is recorded
 * (object_unreadable); a caller whose later reads time out must call object_unreadable itself. */
int object_open_elf(const struct object *o, struct elf_file **ret);
