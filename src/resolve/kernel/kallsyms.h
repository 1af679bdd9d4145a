/* /proc/kallsyms in packed form: the code symbols of the kernel and its modules, sorted for binary search, about 15
 * bytes per symbol instead of 45 in the text. Blocks of at most 64 symbols share a 64-bit base; a symbol is a 4-byte
 * offset and its name's bytes; the padding before a function ("__pfx_NAME") takes one byte of name. Immutable. Init
 * code, which is freed after boot, is omitted. A symbol ends at the next one, or at the end of its region (_etext; a
 * module's size). */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KALLSYMS_NAME_MAX 512 /* KSYM_NAME_LEN */

struct kallsyms;

/* Reads `fd` from its start. `modules_fd`: /proc/modules, for the end addresses of modules; -1: none. -EPERM: every
 * address reads as zero; -ENOENT: no code symbols; -ENOMEM; other errors of read(2). */
int kallsyms_read(int fd, int modules_fd, struct kallsyms **ret);
void kallsyms_free(struct kallsyms *k);
DEFINE_FREEP(kallsyms)

struct kallsyms_symbol {
    uint64_t start;
    const char *module; /* "" for the kernel itself; owned by the table */
    char name[KALLSYMS_NAME_MAX + 8];
};
/* Finds the symbol that covers `address`. False: no such symbol; `ret` is untouched. */
bool kallsyms_find(const struct kallsyms *k, uint64_t address, struct kallsyms_symbol *ret);

/* Whether `address` is in the kernel's own text, whose symbols never change. */
bool kallsyms_is_core(const struct kallsyms *k, uint64_t address);

/* Reads the first symbols of `fd`. 0, or -EPERM: their addresses read as zero; other errors of read(2). */
int kallsyms_check(int fd);

/* Memory in use, and number of symbols. */
size_t kallsyms_bytes(const struct kallsyms *k);
uint32_t kallsyms_count(const struct kallsyms *k);
