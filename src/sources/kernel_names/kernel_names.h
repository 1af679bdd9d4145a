/* The kernel, asked for the name of an address of its code: the better of two methods, the other is to read
 * /proc/kallsyms whole (resolve/kernel/kallsyms.h). */
#pragma once

#include "base/cleanup.h"
#include "model/attach.h"

#include <stddef.h>
#include <stdint.h>

struct kernel_names;

/* -EPERM, -EINVAL and the like where the kernel cannot be asked; the entry in `report` says why. */
int kernel_names_open(struct attach_report *report, struct kernel_names **ret);
void kernel_names_free(struct kernel_names *n);
DEFINE_FREEP(kernel_names)

/* Where the kernel's own text lies, which never changes. */
void kernel_names_text(const struct kernel_names *n, uint64_t *ret_start, uint64_t *ret_end);

/* "NAME+0xOFFSET/0xSIZE", of a module followed by " [MODULE]"; of BPF code as of the kernel's own. `kernel_names` is a
 * struct kernel_names. The text holds until the next call; NULL: nobody's code. */
const char *kernel_names_ask(void *kernel_names, uint64_t address);
