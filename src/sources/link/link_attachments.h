/* Which files are attached to for link.h, and which are to be: what is wanted is written down here at once,
 * and done by a process of its own (link_helper.h) when it comes to it. Nothing here ever waits for that, but
 * for the first word of that process and a moment for its end. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "sources/link/link.h"

#include <stddef.h>
#include <stdint.h>

struct link_attachments;
struct link_bpf;

/* Starts the process and asks it whether anything can be attached here; `bpf` is borrowed. -ETIMEDOUT: it
 * does not answer. */
int link_attachments_new(struct link_bpf *bpf, struct link_attachments **ret);
void link_attachments_free(struct link_attachments *l); /* detaches; waits no longer than a few seconds */
DEFINE_FREEP(link_attachments)

/* See link_source_attach. */
int link_attachments_add(struct link_attachments *l, int fd, const struct link_site *sites, size_t count,
                         struct link_attachment **ret);
/* Takes it: it is detached when it comes to it. */
void link_attachments_remove(struct link_attachments *l, struct link_attachment *a);

/* Whether one has become free since this was asked last. */
bool link_attachments_has_new_room(struct link_attachments *l);

/* To keep to the budget: nothing is attached, until it is switched off again. */
void link_attachments_sleep(struct link_attachments *l, bool asleep);

/* Takes answers and hands on what is to be done. */
void link_attachments_turn(struct link_attachments *l);

struct link_attachments_stats {
    size_t attached;    /* files */
    size_t waiting;     /* ... that are not yet as they are to be */
    uint64_t refused;   /* tries that failed */
    uint64_t no_room;   /* times that a file was past the bounds */
    uint64_t late;      /* that were not done within LINK_LATE_NS */
    uint64_t starts;    /* of the process */
    uint64_t waits_ns;  /* for how long the longest of them has not been done now; pauses after a refusal apart */
    uint64_t cpu_ns;    /* of the process */
    uint64_t forgotten; /* threads of which it was given up what they work for: nobody would hear them leave */
    int pid;            /* of the process; 0: none runs */
};
void link_attachments_stats(const struct link_attachments *l, struct link_attachments_stats *ret);
