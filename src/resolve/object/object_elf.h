/* Opening an object's file as ELF. */
#pragma once

#include "resolve/elf/elf.h"
#include "resolve/object/objects.h"

/* Errors of object_open and elf_open. One that does not answer is known as such from then on (object_unreadable); that
 * it does not answer later on, while it is read, is for the caller to tell. */
int object_open_elf(const struct object *o, struct elf_file **ret);
