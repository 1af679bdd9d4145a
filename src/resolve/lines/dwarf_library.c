/* Loads libdw; see dwarf_library.h. */
#include "resolve/lines/dwarf_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

int dwarf_library_load(struct dwarf_library *ret)
{
    void *handle = dlopen(DWARF_LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return -ENOPKG;
    struct dwarf_library library;
#define DWARF_LIBRARY_FIND(name)                                                                                       \
    library.name = (__typeof__(library.name))dlsym(handle, #name);                                                     \
    if (!library.name)                                                                                                 \
        return -ENOPKG;
    DWARF_LIBRARY_FUNCTIONS(DWARF_LIBRARY_FIND)
#undef DWARF_LIBRARY_FIND
    *ret = library;
    return 0;
}
