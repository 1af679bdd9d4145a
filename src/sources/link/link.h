/* Links threads to the traced requests they work for (probes/link.h): loads probes/link.bpf.c, which maintains the
 * table, and attaches it to the probes of libsonde's provider sonde_trace. The CPU, off-CPU and request sources read
 * the table, which is a shared one (tables/shared_tables.h). Pipeline thread only. */
#pragma once

#include "sources/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINK_PROVIDER  "sonde_trace"
#define LINK_FILES_MAX 256           /* attached at a time: each takes descriptors */
#define LINK_SITES_MAX 8             /* of one file */
#define LINK_LATE_NS   5000000000ull /* attach and detach operations that take longer are counted as late */

struct link_attachment; /* one attached file */

/* A probe site in a file. */
struct link_site {
    uint64_t file_offset, semaphore_offset; /* semaphore_offset 0: none */
    bool is_leave;                          /* thread_leave, else thread_enter */
};

extern const struct source source_link; /* of signal "link"; it has no options */

/* Makes the helper process attach to all sites, in every present and future process that maps the file. That happens
 * some time after the call, or never (counted). -EINVAL: `sites` is not one thread_enter site and at least one
 * thread_leave site. Any other error: not accepted now (-ENOSPC: all places, or the share of the file's owner, are in
 * use), which is counted; see link_source_has_new_room(). */
int link_source_attach(void *link_source, int fd, const struct link_site *sites, size_t count,
                       struct link_attachment **ret);
/* Detaches; for a file that no process maps any more. */
void link_source_detach(void *link_source, struct link_attachment *attachment);
/* Whether a place has become free since the last call. */
bool link_source_has_new_room(void *link_source);
/* For a running process that has unmapped a file, so that its threads will not fire thread_leave: discards the links
 * of its threads. They are linked again when they next enter. */
void link_source_forget(void *link_source, uint32_t pid);

/* How long the oldest pending attach or detach has been blocked in the kernel. Refused ones that wait for a retry do
 * not count. */
uint64_t link_source_waits_ns(void *link_source);
