/* Which files are attached for link.h, and which should be. Requests are recorded here at once; a helper process
 * (link_helper.h) carries them out later. Nothing here waits for it, except for its initial message and, briefly, for
 * its end. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "sources/link/link.h"

#include <stddef.h>
#include <stdint.h>

struct link_attachments;
struct link_bpf;

/* Starts the helper process and checks that uprobes can be attached here; `bpf` is borrowed. -ETIMEDOUT: the helper
 * does not respond. The caller frees `*ret`. */
int link_attachments_new(struct link_bpf *bpf, struct link_attachments **ret);
void link_attachments_free(struct link_attachments *l); /* detaches; waits a few seconds at most */
DEFINE_FREEP(link_attachments)

/* See link_source_attach. */
int link_attachments_add(struct link_attachments *l, int fd, const struct link_site *sites, size_t count,
                         struct link_attachment **ret);
/* Takes ownership of `a`, which is detached later. */
void link_attachments_remove(struct link_attachments *l, struct link_attachment *a);

/* Whether a place has become free since the last call. */
bool link_attachments_has_new_room(struct link_attachments *l);

/* For the budget: detaches everything while `paused`. */
void link_attachments_pause(struct link_attachments *l, bool paused);

/* Processes the helper's responses and sends it the next requests. */
void link_attachments_turn(struct link_attachments *l);

struct link_attachments_stats {
    size_t attached;    /* files */
    size_t waiting;     /* files whose state is not yet as desired */
    uint64_t refused;   /* failed attempts */
    uint64_t no_room;   /* files rejected because all places were in use */
    uint64_t late;      /* attachments pending for longer than LINK_LATE_NS */
    uint64_t starts;    /* of the helper */
    uint64_t waits_ns;  /* how long the oldest change has been pending now, except those waiting for a retry */
    uint64_t cpu_ns;    /* of the helper */
    uint64_t forgotten; /* threads whose link was discarded because thread_leave would not fire */
    int pid;            /* of the helper; 0: none runs */
};
void link_attachments_stats(const struct link_attachments *l, struct link_attachments_stats *ret);
