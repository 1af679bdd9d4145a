/* Firings of native probes (USDT), each with its arguments, while somebody asks for them: `sonde probes
 * watch`. Attached to files, in one process or in all that map them, also later. Not thread-safe. */
#pragma once

#include "base/cleanup.h"

#include <linux/types.h>

#include "probes/usdt.h"

#include <stdint.h>

struct usdt_watch;
struct usdt_watch_link; /* a file that is attached to */

struct usdt_watch_target {
    const char *path; /* of the file; also of /proc/PID/map_files */
    int pid;          /* -1: every process */
    const char *provider, *name;
    uint32_t texts;      /* a bit for each argument that is read as a text */
    const void *context; /* for `take`; files of one context have the same `texts` */
};

/* A value other than 0 ends the poll and is returned by it. */
typedef int usdt_watch_take(void *context, const void *sampling_rule_context, const struct usdt_firing *firing);

int usdt_watch_new(usdt_watch_take *take, void *context, struct usdt_watch **ret);
void usdt_watch_free(struct usdt_watch *w);
DEFINE_FREEP(usdt_watch)

/* Attaches. -ENOTSUP: the kernel has no cookies (before 5.15), -EPERM: no rights, -ENOSPC:
 * NATIVE_WATCH_LINKS_MAX files or NATIVE_WATCH_CONTEXTS_MAX contexts are attached. */
#define NATIVE_WATCH_LINKS_MAX    256 /* as many as libbpf tells apart in a program */
#define NATIVE_WATCH_CONTEXTS_MAX 16
int usdt_watch_add(struct usdt_watch *w, const struct usdt_watch_target *target, struct usdt_watch_link **ret);
void usdt_watch_remove(struct usdt_watch_link *link);

int usdt_watch_fd(const struct usdt_watch *w); /* readable when firings wait */
int usdt_watch_poll(struct usdt_watch *w);

/* Firings that found no room in the ring, or during which the program was at work on that CPU already. */
uint64_t usdt_watch_lost(const struct usdt_watch *w);
