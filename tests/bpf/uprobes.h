/* uprobes and uretprobes on functions of the test program itself, as perf attaches them: no BPF program is needed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The file offset of an address of the test program's code or data. */
uint64_t uprobes_file_offset(const void *address);

/* Attaches to the instruction at `code` in all processes; `is_return`: to the return of the function that begins there.
 * The probe lasts until the caller closes the descriptor. */
int uprobes_attach(const void *code, bool is_return);
