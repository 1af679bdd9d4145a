/* The process that attaches uprobes for link_attachments.h, and what goes over its socket. To attach or to
 * detach one, the kernel holds up every fork of the machine and waits for the memory lock of each process
 * that maps the file: for ever, if a page of such a process comes from a file system that does not answer.
 * Nothing ends a thread that waits there, and a process does not end before its last thread: so it is a
 * process of its own that waits, which holds nothing of the agent's but the programs. */
#pragma once

#include "sources/link/link.h"

#include <stdint.h>

struct link_bpf;

enum link_ask_kind {
    LINK_ASK_ATTACH,            /* comes with the descriptor of the file */
    LINK_ASK_DETACH,            /* what nobody maps any more */
    LINK_ASK_DETACH_AND_FORGET, /* what is still mapped: its threads will not be heard to leave */
};

struct link_ask {
    uint32_t kind;
    uint32_t place; /* of the attachment, below LINK_FILES_MAX: one at a time */
    uint64_t site_count;
    struct link_site sites[LINK_SITES_MAX];
};

/* One for each question, in their order. The first is for none: whether it can be done here at all. */
struct link_answer {
    uint32_t place;     /* LINK_FILES_MAX: of none */
    int32_t error;      /* 0 or -errno */
    uint32_t forgotten; /* threads of which it was given up what they work for */
};

/* What the new process does, until `control` is closed: then it detaches, in order, and ends. Of the agent's
 * descriptors only those of `bpf` are kept. */
_Noreturn void link_helper_run(int control, struct link_bpf *bpf);
