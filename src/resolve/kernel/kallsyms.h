/* /proc/kallsyms packed: the code symbols of the kernel and its modules in an order to search in, about 15
 * bytes a symbol against 45 of the text. Blocks of at most 64 symbols share a 64-bit base; a symbol is a
 * 4-byte offset and its name's bytes; the padding in front of a function ("__pfx_NAME") is one byte.
 * Immutable once read; init code, which is freed after boot, is left out. What comes next to it in memory
 * bounds a symbol, else the end of its region (_etext, a module's size). */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KALLSYMS_NAME_MAX 512 /* KSYM_NAME_LEN */

struct kallsyms;

/* Reads from the descriptor's start. `modules_fd`: /proc/modules, which says where modules end; -1 when there
 * is none. -EPERM: every address reads as zero; -ENOENT: no code symbols at all. */
int kallsyms_read(int fd, int modules_fd, struct kallsyms **ret);
void kallsyms_free(struct kallsyms *k);
DEFINE_FREEP(kallsyms)

struct kallsyms_symbol {
    uint64_t start;
    const char *module; /* "" for the kernel itself; owned by the table */
    char name[KALLSYMS_NAME_MAX + 8];
};
/* False when no symbol covers the address; then `ret` is untouched. */
bool kallsyms_find(const struct kallsyms *k, uint64_t address, struct kallsyms_symbol *ret);

/* Inside the kernel's own text, which never changes? */
bool kallsyms_is_core(const struct kallsyms *k, uint64_t address);

/* One look at the first symbols: 0, or -EPERM when their addresses read as zero. */
int kallsyms_check(int fd);

size_t kallsyms_bytes(const struct kallsyms *k);
uint32_t kallsyms_count(const struct kallsyms *k);
