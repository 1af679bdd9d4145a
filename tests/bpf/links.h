/* The link source, attached to a provider of the test's own. Shared by the tests of thread contexts and of
 * attachments. */
#pragma once

#include <sonde/probe.h>

#include "model/loss.h"
#include "sources/link/link.h"
#include "watch.h"

#include <linux/types.h>

#include "probes/link.h"

#include <stdbool.h>
#include <sys/types.h>

extern struct sonde_provider *links_provider;
extern struct sonde_probe *links_enter_probe, *links_leave_probe;
extern const struct link_ids links_outer, links_inner, links_none;

struct links {
    struct watch_options options; /* the filter: this process */
    struct shared_tables *tables;
    void *source;
    struct link_attachment *attachment;
};

/* Loads the provider and attaches the source to it. */
struct links links_begin(void);
/* Detaches and frees everything; asserts that nothing was lost, or exactly the given losses. */
void links_end(struct links *l);
void links_end_with(struct links *l, const struct losses *expected);

/* Makes the calling thread enter the request with these ids. */
void links_enter(const struct link_ids *ids);
void links_leave(const struct link_ids *again);
pid_t links_thread(void);

struct thread_link links_entry(const struct links *l, uint32_t key);
/* Whether the source has a valid entry for the thread, present or past. */
bool links_know(const struct links *l, pid_t tid);
double links_metric(const struct links *l, const char *name);

/* Called between two turns of the source by a test that waits for one; NULL: only real time passes. */
extern void (*links_pass_time)(void);
void links_turn(const struct links *l);
/* Runs turns of the source until the attachment state is as requested, for at most a minute: another process attaches.
 */
void links_turn_until(const struct links *l, bool attached);

/* The provider's file in memory, and the sites of its probes. */
int links_open_file(void);
void links_read_sites(int fd, struct link_site sites[2]);
