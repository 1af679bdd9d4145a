/* The helper process that attaches uprobes for link_attachments.h, and its socket protocol. To attach or detach a
 * uprobe, the kernel blocks every fork on the machine and waits for the memory lock of each process that maps the
 * file: forever, if a page of such a process comes from a file system that does not respond. A thread that waits there
 * cannot be killed, and a process does not end before its last thread. So a separate process waits, which holds no
 * resources of the agent except the BPF programs. */
#pragma once

#include "sources/link/link.h"

#include <stdint.h>

struct link_bpf;

enum link_ask_kind {
    LINK_ASK_ATTACH,            /* with the file's descriptor */
    LINK_ASK_DETACH,            /* the file is no longer mapped */
    LINK_ASK_DETACH_AND_FORGET, /* the file is still mapped: thread_leave will not fire for its threads */
};

struct link_ask {
    uint32_t kind;
    uint32_t place; /* of the attachment, below LINK_FILES_MAX; one file at a time */
    uint64_t site_count;
    struct link_site sites[LINK_SITES_MAX];
};

/* One per request, in order. The first one answers no request: it says whether attaching works here at all. */
struct link_answer {
    uint32_t place;     /* LINK_FILES_MAX: none */
    int32_t error;      /* 0 or -errno */
    uint32_t forgotten; /* threads whose link was discarded */
};

/* Main function of the helper: serves requests until `control` is closed, then detaches in order and exits. Keeps only
 * the descriptors of `bpf` among the agent's. */
_Noreturn void link_helper_run(int control, struct link_bpf *bpf);
