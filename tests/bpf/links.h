/* The source of links, attached to a provider of the test's own: shared by the tests of what threads work for and of
 * who attaches. */
#pragma once

#include <sonde/probe.h>

#include "model/loss.h"
#include "sources/link/link.h"

#include <linux/types.h>

#include "probes/link.h"

#include <stdbool.h>
#include <sys/types.h>

extern struct sonde_provider *links_provider;
extern struct sonde_probe *links_enter_probe, *links_leave_probe;
extern const struct link_ids links_outer, links_inner, links_none;

struct links {
    void *source;
    struct link_attachment *attachment;
};

/* Loads the provider, and has it attached to. */
struct links links_begin(void);
/* Detaches and frees all; says that nothing was lost, or just so much. */
void links_end(struct links *l);
void links_end_with(struct links *l, const struct losses *expected);

/* The calling thread does. */
void links_enter(const struct link_ids *ids);
void links_leave(const struct link_ids *again);
pid_t links_thread(void);

struct thread_link links_entry(const struct links *l, uint32_t key);
/* What the thread works for, or worked for, is known and believed. */
bool links_know(const struct links *l, pid_t tid);
double links_figure(const struct links *l, const char *name);

/* Called between two turns of the source, by whichever test waits for one; NULL: time passes by itself. */
extern void (*links_pass_time)(void);
void links_turn(const struct links *l);
/* Turns of the source until all is as it was asked for, within a minute: who attaches is another process. */
void links_turn_until(const struct links *l, bool attached);

/* The provider's file in memory, and where its probes are. */
int links_open_file(void);
void links_read_sites(int fd, struct link_site sites[2]);
