/* Firings of USDT probes with their arguments, for `sonde probes watch`. Attaches to files, in one process or in all
 * present and future processes that map them. Not thread-safe. */
#pragma once

#include "base/cleanup.h"

#include <linux/types.h>

#include "probes/usdt.h"

#include <stdint.h>

struct usdt_watch;
struct usdt_watch_link; /* an attached file */

struct usdt_watch_target {
    const char *path; /* of the file; may be in /proc/PID/map_files */
    int pid;          /* -1: every process */
    const char *provider, *name;
    uint32_t texts;      /* bit set of the arguments that are strings */
    const void *context; /* passed to `take`; files of one context have the same `texts` */
};

/* Receives a firing, which is valid during the call. A negative result ends the poll, which returns it; other firings
 * of that ring stay there for the next poll. */
typedef int usdt_watch_take(void *context, const void *target_context, const struct usdt_firing *firing);

/* Attaches nothing yet. The caller frees `*ret`. -ENOMEM. */
int usdt_watch_new(usdt_watch_take *take, void *context, struct usdt_watch **ret);
void usdt_watch_free(struct usdt_watch *w); /* detaches from all files */
DEFINE_FREEP(usdt_watch)

/* Attaches to a file. -ENOTSUP: the kernel has no BPF cookies (before 5.15), -EPERM: lacks privileges, -ENOSPC:
 * USDT_WATCH_LINKS_MAX files or USDT_WATCH_CONTEXTS_MAX contexts are attached. */
#define USDT_WATCH_LINKS_MAX    256 /* as many as libbpf distinguishes in a program */
#define USDT_WATCH_CONTEXTS_MAX 16
int usdt_watch_add(struct usdt_watch *w, const struct usdt_watch_target *target, struct usdt_watch_link **ret);
/* Detaches from the file, once; `link` is invalid afterwards. Its firings that were recorded already still arrive. */
void usdt_watch_remove(struct usdt_watch_link *link);

int usdt_watch_fd(const struct usdt_watch *w); /* readable when firings are available; -1: nothing is attached */
/* Passes all available firings to `take`, without blocking. 0, a negative result of `take`, or -errno. */
int usdt_watch_poll(struct usdt_watch *w);

/* Firings lost because the ring was full, or because the program was already running on that CPU. */
uint64_t usdt_watch_lost(const struct usdt_watch *w);
