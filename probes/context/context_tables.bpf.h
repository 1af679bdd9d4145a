/* Where the threads of a process publish their traced request, and where a Go program has its goroutine labels, by
 * process: tables.bpf.c creates these maps, src/sources/tables/context_tables.c fills them. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/go_labels.h"
#include "probes/thread_context.h"

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, THREAD_CONTEXT_PROCESSES_MAX);
    __type(key, __u32);
    __type(value, struct thread_context_place);
} thread_contexts SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, GO_LABELS_PROCESSES_MAX);
    __type(key, __u32);
    __type(value, struct go_labels_layout);
} go_labels SEC(".maps");
