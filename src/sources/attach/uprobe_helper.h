/* The helper process that attaches uprobes for uprobe_attachments.h, and its socket protocol. To attach or detach a
 * uprobe, the kernel blocks forks and waits for the memory lock of each process that maps the file, possibly forever
 * (sources/link/link_helper.h): so another process waits, which holds nothing of the agent but the programs. */
#pragma once

#include "sources/attach/uprobe_attachments.h"

#include <stdint.h>

struct uprobe_ask {
    uint32_t place; /* of the attachment, below UPROBE_ATTACHMENTS_MAX */
    int32_t pid;    /* only in this process; -1: in all */
    uint32_t is_on; /* attaches, with the file's descriptor; else detaches */
    uint32_t site_count;
    struct uprobe_site sites[UPROBE_SITES_MAX];
};

/* One for each ask, in order. */
struct uprobe_answer {
    uint32_t place;
    int32_t error; /* 0 or -errno */
};

/* Main function of the helper: serves until `control` is closed, then detaches and exits. `name` and `kinds` as of
 * uprobe_attachments_new. */
_Noreturn void uprobe_helper_run(int control, const char *name, const struct uprobe_programs *kinds, size_t kind_count);
