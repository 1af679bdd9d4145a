/* Which request each thread works for (probes/link.h): loads probes/link.bpf.c, which keeps the table, and
 * attaches it to the probes of libsonde's provider sonde_trace where somebody found one. The sources of
 * samples and requests read the table (source_options.links_fd). Pipeline thread only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINK_PROVIDER  "sonde_trace"
#define LINK_FILES_MAX 256           /* that are attached to at a time: each takes descriptors */
#define LINK_SITES_MAX 8             /* of one file */
#define LINK_LATE_NS   5000000000ull /* what is not attached or detached by then is counted */

struct link_attachment; /* of one file */

/* A place of a probe in a file. */
struct link_site {
    uint64_t file_offset, semaphore_offset; /* semaphore_offset 0: none */
    bool is_leave;                          /* thread_leave, else thread_enter */
};

int link_source_fd(void *link_source);

/* Has a process of its own attach to all places, in every process that maps the file, now and later: a moment
 * after this, or never (counted). -EINVAL: not one place of entering and some of leaving. Any other error:
 * there is no room now (-ENOSPC: all places are taken, or the share of the file's owner is), which is counted;
 * see link_source_has_new_room(). */
int link_source_attach(void *link_source, int fd, const struct link_site *sites, size_t count,
                       struct link_attachment **ret);
/* Nobody maps the file any more. */
void link_source_detach(void *link_source, struct link_attachment *attachment);
/* Whether a place has become free since this was asked last. */
bool link_source_has_new_room(void *link_source);
/* A process that lives on maps a file no more: its threads will not be heard to leave. What they work for is
 * known again with their next entering. */
void link_source_forget(void *link_source, uint32_t pid);

/* CPU time of that process; 0 for NULL. */
uint64_t link_source_helper_cpu_ns(void *link_source);
/* For how long the kernel has kept something waiting now that is to be attached or detached; what waits for
 * its next try, because it was refused, does not count. */
uint64_t link_source_waits_ns(void *link_source);
