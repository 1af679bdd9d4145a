/* Firings of native probes (USDT), each with its arguments, while somebody asks for them: `sonde probes
 * watch`. Attached to files, in one process or in all that map them, also later. Not thread-safe. */
#pragma once

#include "base/cleanup.h"

#include <linux/types.h>

#include "probes/native.h"

#include <stdint.h>

struct native_watch;
struct native_watch_link; /* a file that is attached to */

struct native_watch_target {
    const char *path; /* of the file; also of /proc/PID/map_files */
    int pid;          /* -1: every process */
    const char *provider, *name;
    uint32_t texts;      /* a bit for each argument that is read as a text */
    const void *context; /* for `take`; files of one context have the same `texts` */
};

/* A value other than 0 ends the poll and is returned by it. */
typedef int native_watch_take(void *context, const void *target_context, const struct native_firing *firing);

int native_watch_new(native_watch_take *take, void *context, struct native_watch **ret);
void native_watch_free(struct native_watch *w);
DEFINE_FREEP(native_watch)

/* Attaches. -ENOTSUP: the kernel has no cookies (before 5.15), -EPERM: no rights, -ENOSPC:
 * NATIVE_WATCH_LINKS_MAX files or NATIVE_WATCH_CONTEXTS_MAX contexts are attached. */
#define NATIVE_WATCH_LINKS_MAX    256 /* as many as libbpf tells apart in a program */
#define NATIVE_WATCH_CONTEXTS_MAX 16
int native_watch_add(struct native_watch *w, const struct native_watch_target *target,
                     struct native_watch_link **ret);
void native_watch_remove(struct native_watch_link *link);

int native_watch_fd(const struct native_watch *w); /* readable when firings wait */
int native_watch_poll(struct native_watch *w);

/* Firings that found no room in the ring, or during which the program was at work on that CPU already. */
uint64_t native_watch_lost(const struct native_watch *w);
