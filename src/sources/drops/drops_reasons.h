/* The kernel's reasons for dropping packets: their names, which the running kernel numbers, and their classes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <linux/types.h>

#include "probes/drops.h"

struct btf;

#define DROPS_REASON_BYTES 40

struct drops_reasons {
    char names[DROPS_REASONS][DROPS_REASON_BYTES]; /* "NETFILTER_DROP"; "": the kernel has no such reason */
};

/* Reads the names from the kernel's BTF. False: this kernel has no reasons (before Linux 5.17). */
bool drops_reasons_read(const struct btf *kernel, struct drops_reasons *ret);

/* How a reason of this name counts. */
enum drops_class drops_class_of(const char *name);
