/* Where goroutines of a Go program store their pprof labels, by the Go version that built it (probes/go_labels.h).
 * The version is in .go.buildinfo, in stripped programs too. x86-64. */
#pragma once

#include <linux/types.h>

#include "probes/go_labels.h"
#include "probes/go_stacks.h"

#include <stdint.h>

struct elf_file;

struct go_labels_file {
    struct go_labels_layout layout;
    struct go_stack_layout stacks; /* of the same version; all zeros where unknown */
    char version[24];              /* possibly truncated: "go1.26.8"; "": built before Go 1.18 */
};

/* Cheap for files that are not Go programs. Kind GO_LABELS_UNKNOWN: a version that the table does not have (a newer
 * or unreleased one), or the thread's variable cannot be located (a library; static, with C code, and stripped).
 * -ENOENT: not a Go program; errors of elf_read. */
int go_labels_read(const struct elf_file *f, struct go_labels_file *ret);
