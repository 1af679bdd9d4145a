/* Unwind rules of code without any description (cfi_known.c lists which). */
#pragma once

#include "resolve/unwind/cfi_ranges.h"

/* Adds code whose layout is known without any description */
int cfi_known_add(const struct elf_file *f, struct cfi_index *index);

/* Searches for signal trampolines in code without description (musl, Go, arm64's vdso), by their instructions. Returns
 * the offset of the next one in [from, to) and its length, or `to`. Reads at most `*budget_bytes`, which is reduced by
 * the bytes read. */
uint32_t cfi_known_trampoline(const struct elf_file *f, uint32_t from, uint32_t to, size_t *budget_bytes,
                              uint32_t *ret_size, struct unwind_rule *ret_rule);

/* The start offset of the rule of a trampoline at `at`. Handlers return to its first byte, and callers are
 * looked up by the byte before, so padding before it is included. */
uint32_t cfi_known_trampoline_from(const struct elf_file *f, uint32_t at);
