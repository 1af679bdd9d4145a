/* Which code of interpreters has been written as records, by all programs together: tables.bpf.c creates this
 * map. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/interpreter/interpreter.h"

/* A code object whose slot was overwritten, by another one or by user space, is emitted again. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, EMITTED_CODES_MAX);
    __type(key, __u32);
    __type(value, __u64);
} emitted_codes SEC(".maps");
