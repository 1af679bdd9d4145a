/* Which code objects of interpreters have been written as records, by all programs together: tables.bpf.c creates this
 * map. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/python.h"

/* A code object whose slot was overwritten, by another one or by user space, is emitted again. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, PYTHON_EMITTED_MAX);
    __type(key, __u32);
    __type(value, __u64);
} python_emitted SEC(".maps");
