/* Uprobes, attached in the way that needs the fewest rights. Since Linux 6.16 the kernel demands CAP_SYS_ADMIN for perf
 * events of uprobes, which a confined agent lacks; there programs are attached by links of type uprobe_multi, for which
 * CAP_BPF and CAP_PERFMON suffice. A program is loaded for one of both. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stdint.h>

struct bpf_object;
struct bpf_program;
struct uprobe_link;

/* To be called before `object` is loaded, if it has programs of the sections "uprobe" and "uretprobe". */
void uprobe_links_prepare(struct bpf_object *object);

struct uprobe_place {
    int fd; /* of the file */
    uint64_t file_offset;
    uint64_t semaphore_offset; /* in the file: the kernel increments it while attached; 0: none */
    int32_t pid;               /* in this process only; -1: in every process that maps the file */
    bool is_return;            /* where the function returns, instead of where it begins */
};

/* Attaches a loaded program. Blocks while the kernel waits for the memory lock of each process that maps the file. The
 * caller frees `*ret`. 0 or -errno. */
int uprobe_link_new(struct bpf_program *program, const struct uprobe_place *place, struct uprobe_link **ret);
void uprobe_link_free(struct uprobe_link *l); /* detaches; blocks likewise */
DEFINE_FREEP(uprobe_link)
