/* PLT stubs and the functions that they call. A stub has no symbol: its code shows the GOT slot that it jumps
 * through, and the relocation of that slot names the function. */
#pragma once

#include "base/cleanup.h"
#include "resolve/elf/elf.h"

#include <stddef.h>
#include <stdint.h>

struct plt;

struct plt_stub {
    uint64_t start;
    uint32_t size;
    uint32_t name; /* offset in .dynstr */
};

/* -ENOENT: the file has no readable PLT. */
int plt_read(const struct elf_file *file, struct plt **ret);
void plt_free(struct plt *p);
DEFINE_FREEP(plt)

size_t plt_stubs(const struct plt *p, const struct plt_stub **ret); /* 0 for NULL */
size_t plt_bytes(const struct plt *p);
