/* The tables of sampling rules: tables.bpf.c creates these maps, src/sources/sampling/sampling_rule_table.c fills
 * them. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/sampling_rule.h"

/* Updated at run time: cgroups come and go. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, SAMPLING_RULE_KEYS_MAX);
    __type(key, struct sampling_rule_key);
    __type(value, __u32);
} sampling_rule_keys SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, SAMPLING_RULES_MAX + 1);
    __type(key, __u32);
    __type(value, struct sampling_rule_count);
} sampling_rule_counts SEC(".maps");
