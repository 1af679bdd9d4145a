/* Uprobes at functions of files: which files are attached to, and which should be. A helper process (uprobe_helper.h)
 * carries it out: nothing here waits for it. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_program;
struct uprobe_attachment; /* one file, or one process of it */
struct uprobe_attachments;

/* The programs of one kind of site; NULL: entries, or returns, are not attached to. */
struct uprobe_programs {
    struct bpf_program *entry, *at_return;
};

struct uprobe_site {
    uint64_t file_offset;
    uint32_t kind; /* index of its struct uprobe_programs */
    uint32_t reserved;
};

#define UPROBE_KINDS_MAX       16
#define UPROBE_SITES_MAX       64 /* of an attachment */
#define UPROBE_ATTACHMENTS_MAX 128
#define UPROBE_EVERY_PROCESS   (-1)
#define UPROBE_HIT_NS          400 /* what the kernel spends on a hit beside the program; measured on 6.18 */

/* `helper_name`: of the process, at most 15 bytes. `kinds`: at most UPROBE_KINDS_MAX, copied; the programs are borrowed
 * and loaded. The helper starts with the first attachment. The caller frees `*ret`. -ENOMEM. */
int uprobe_attachments_new(const char *helper_name, const struct uprobe_programs *kinds, size_t kind_count,
                           struct uprobe_attachments **ret);
void uprobe_attachments_free(struct uprobe_attachments *a); /* detaches; waits a few seconds at most */
DEFINE_FREEP(uprobe_attachments)

/* Wants these sites of the file attached, in process `pid` or UPROBE_EVERY_PROCESS. Keeps a copy of `fd`. -EINVAL: no
 * sites, or too many; -ENOSPC: too many files; -EMFILE. */
int uprobe_attachments_add(struct uprobe_attachments *a, int fd, int32_t pid, const struct uprobe_site *sites,
                           size_t count, struct uprobe_attachment **ret);
/* Whether all its sites are attached to. */
bool uprobe_attachment_is_on(const struct uprobe_attachment *t);
/* Takes ownership of `t`, which is detached later. */
void uprobe_attachments_remove(struct uprobe_attachments *a, struct uprobe_attachment *t);

/* Detaches all files for good: files that are added later are not attached to. */
void uprobe_attachments_stop(struct uprobe_attachments *a);
bool uprobe_attachments_is_stopped(const struct uprobe_attachments *a);

/* Takes the helper's answers, and sends it the next asks. */
void uprobe_attachments_turn(struct uprobe_attachments *a);

struct uprobe_attachments_stats {
    bool is_stopped;
    size_t attached, waiting;
    size_t refused;  /* of those that are still wanted; they are not tried again */
    int last_error;  /* of the last one that was refused: -errno; 0: none */
    uint64_t starts; /* of the helper */
    uint64_t cpu_ns; /* of all helpers */
};
void uprobe_attachments_stats(const struct uprobe_attachments *a, struct uprobe_attachments_stats *ret);
