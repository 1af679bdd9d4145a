/* Looks up the names of kernel addresses in the kernel itself. The alternative is to read all of /proc/kallsyms
 * (resolve/kernel/kallsyms.h). */
#pragma once

#include "base/cleanup.h"
#include "model/attach.h"

#include <stddef.h>
#include <stdint.h>

struct kernel_names;

/* Loads the lookup program. Returns -EPERM, -EINVAL, ... where the kernel does not support it; the entry in `report`
 * says why. The caller frees `*ret`. */
int kernel_names_open(struct attach_report *report, struct kernel_names **ret);
void kernel_names_free(struct kernel_names *n);
DEFINE_FREEP(kernel_names)

/* The range of the kernel's own text, which never changes. */
void kernel_names_text(const struct kernel_names *n, uint64_t *ret_start, uint64_t *ret_end);

/* Returns "NAME+0xOFFSET/0xSIZE", followed by " [MODULE]" for a module; BPF code looks like the kernel's own.
 * `kernel_names` is a struct kernel_names. The string is valid until the next call; NULL: not code. */
const char *kernel_names_lookup(void *kernel_names, uint64_t address);
