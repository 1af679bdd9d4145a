/* Native probes in all processes as these come and go: fed with the table of processes (processes.h) whenever
 * one has mapped code, and by a walk through those that were there before. Counts what there is, and tells of
 * each file that holds a wanted provider from the first process that maps it to the last. Bounded. Pipeline
 * thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "resolve/process/processes.h"
#include "resolve/usdt/usdt_probes.h"

#include <stddef.h>
#include <stdint.h>

struct usdt_providers;

/* A file with the wanted provider, as a process maps it. Borrowed for the call. */
struct usdt_provider_file {
    int fd;
    const struct usdt_probes *probes;
    const struct process *process;
};

struct usdt_providers_options {
    struct processes *processes;
    const char *provider; /* that is wanted */
    void *context;
    /* `*ret` becomes what stands for the file from now on, handed to `gone` when nobody maps it any more. NULL:
     * it is not wanted; asked again when a process that maps it is looked at. An error: there is no room for
     * it; asked again then, and by usdt_providers_ask_again(). */
    int (*appeared)(void *context, const struct usdt_provider_file *file, void **ret);
    void (*gone)(void *context, void *taken);
    /* A process that lives on maps a file no more that it mapped when it was looked at last; or that cannot be
     * told, because it maps more of them than are kept. */
    void (*unmapped)(void *context, uint32_t pid);
};

int usdt_providers_new(const struct usdt_providers_options *options, struct usdt_providers **ret);
void usdt_providers_free(struct usdt_providers *n); /* tells of files that they are gone */
DEFINE_FREEP(usdt_providers)

/* The process is new, or has mapped code: it is looked at in one of the next turns. */
void usdt_providers_look(struct usdt_providers *n, uint32_t pid);
/* It has left the table of processes: if it lives on, its end is looked for. (One that runs another program
 * maps it, and is looked at.) */
void usdt_providers_forget(struct usdt_providers *n, uint32_t pid);

/* All processes have to be looked at: at the start, and when it is not known who changed. */
void usdt_providers_look_at_all(struct usdt_providers *n);
/* There may be room for files that found none: these are offered again, some in each second. */
void usdt_providers_ask_again(struct usdt_providers *n);
/* Goes on with all that for about so long. */
void usdt_providers_turn(struct usdt_providers *n, uint64_t budget_ns);

void usdt_providers_metrics(const struct usdt_providers *n, struct metric_set *set);
