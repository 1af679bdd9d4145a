/* The unwind tables (unwind_maps.h): tables.bpf.c creates these maps, user space passes them to the programs that
 * unwind. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/unwind/unwind.h"
#include "probes/unwind/unwind_maps.h"

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1); /* set at load */
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, __u32);
    __type(value, struct unwind_process);
} unwind_processes SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1); /* set at load */
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct unwind_chunk_key);
    __type(value, struct unwind_chunk);
} unwind_chunks SEC(".maps");

struct unwind_object_map {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_INNER_MAP); /* objects differ in size */
    __uint(max_entries, 1);
    __type(key, __u32);
    __uint(value_size, UNWIND_VALUE_BYTES);
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, UNWIND_MAX_OBJECTS);
    __type(key, __u32);
    __array(values, struct unwind_object_map);
} unwind_objects SEC(".maps");
