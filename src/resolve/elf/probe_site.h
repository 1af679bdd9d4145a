/* Where a uprobe can lie in an x86-64 function: at an instruction that the kernel emulates. An instruction that it
 * would single-step costs each call about 14 us. */
#pragma once

#include "resolve/elf/elf.h"

#include <stddef.h>
#include <stdint.h>

#define PROBE_CODE_BYTES 256 /* of a function that are decoded */

/* Reads the code at `address`, up to `max` bytes; returns how many. */
size_t probe_code_read(const struct elf_file *f, uint64_t address, uint8_t *code, size_t max);

/* Both return the address of the instruction in the function at `address`; 0: there is none. */

/* The first instruction, or the one behind endbr64. The stack is still as the caller left it, so the return can be
 * probed, too. */
uint64_t probe_site_at_entry(const struct elf_file *f, uint64_t address);
/* The first instruction that is emulated, while the arguments are still in their registers. */
uint64_t probe_site_with_arguments(const struct elf_file *f, uint64_t address);
