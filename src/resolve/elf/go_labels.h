/* Where the goroutines of a program of Go keep their labels, by the version of Go that made it (probes/go_labels.h):
 * that stands in .go.buildinfo, in stripped programs too. x86-64. */
#pragma once

#include <linux/types.h>

#include "probes/go_labels.h"
#include "probes/go_stacks.h"

#include <stdint.h>

struct elf_file;

struct go_labels_file {
    struct go_labels_layout layout;
    struct go_stack_layout stacks; /* of the same version; all zeros where that is not known */
    char version[24];              /* as much of it: "go1.26.8"; "": made before Go 1.18 */
};

/* Cheap for a file that is not Go's. Kind GO_LABELS_UNKNOWN: a version that the table does not have (one to come, or
 * one in the making), or the place of the thread's variable is not told (a library; static, with C code, and stripped).
 * -ENOENT: not Go's; errors of elf_read. */
int go_labels_read(const struct elf_file *f, struct go_labels_file *ret);
