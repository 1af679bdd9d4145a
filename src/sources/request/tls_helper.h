/* The helper process that attaches to OpenSSL for tls_attachments.h, and its socket protocol. To attach or detach a
 * uprobe, the kernel blocks forks and waits for the memory lock of each process that maps the file, possibly forever
 * (sources/link/link_helper.h): so another process waits, which holds nothing of the agent but these programs. */
#pragma once

#include "sources/request/tls_attachments.h"

#include <stdint.h>

struct request_bpf;

struct tls_ask {
    uint32_t place; /* of the attachment, below TLS_ATTACHMENTS_MAX */
    int32_t pid;    /* only in this process; -1: in all */
    uint32_t is_on; /* attaches, with the file's descriptor; else detaches */
    uint32_t site_count;
    struct tls_probe_site sites[TLS_PROBE_SITES_MAX];
};

/* One for each ask, in order. */
struct tls_answer {
    uint32_t place;
    int32_t error; /* 0 or -errno */
};

/* Main function of the helper: serves until `control` is closed, then detaches and exits. */
_Noreturn void tls_helper_run(int control, struct request_bpf *bpf);
