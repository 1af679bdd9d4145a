/* Tracks the USDT probes of all processes as these start and exit. Input is the table of processes (processes.h),
 * whenever a process has mapped code, and a walk through the processes that were there before. Counts providers and
 * probes. Reports each file with the wanted provider when the first process maps it and when the last one has
 * unmapped it. Likewise of files that the caller selects for another reason than a provider. Bounded. Pipeline thread
 * only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "resolve/elf/elf.h"
#include "resolve/process/processes.h"
#include "resolve/usdt/usdt_probes.h"

#include <stddef.h>
#include <stdint.h>

struct usdt_providers;

/* A file with the wanted provider, as a process maps it. Borrowed for the call. */
struct usdt_provider_file {
    int fd;
    const struct usdt_probes *probes; /* NULL: the caller has selected it */
    const struct process *process;
};

struct usdt_providers_options {
    struct processes *processes;
    const char *provider; /* the wanted provider; NULL: the caller selects files, by the two functions that follow */
    bool (*is_candidate)(const char *path);                     /* its path; else it is not opened */
    bool (*is_wanted)(void *context, const struct elf_file *f); /* its contents */
    void *context;
    /* Called for a new file. On success `*ret` is the caller's handle, passed to `gone` when no process maps the
     * file any more. NULL: the file is not wanted now; it is offered again when a process that maps it is scanned.
     * An error: no capacity; it is offered again then, and after usdt_providers_retry_files(). */
    int (*appeared)(void *context, const struct usdt_provider_file *file, void **ret);
    void (*gone)(void *context, void *taken);
    /* Called when a running process no longer maps a file that it mapped at its last scan, or when that cannot be
     * excluded because it maps more files than are tracked. NULL: the caller does not care. */
    void (*unmapped)(void *context, uint32_t pid);
};

/* Copies `options`; `processes` and `provider` are borrowed. The caller frees `*ret`. -ENOMEM. */
int usdt_providers_new(const struct usdt_providers_options *options, struct usdt_providers **ret);
void usdt_providers_free(struct usdt_providers *n); /* calls `gone` for every file */
DEFINE_FREEP(usdt_providers)

/* The process is new, or has mapped code: schedules a scan of it. */
void usdt_providers_look(struct usdt_providers *n, uint32_t pid);
/* The process has left the table of processes. If it still runs, its exit is polled for. (A process that executes
 * another program maps it, and is scanned for that reason.) */
void usdt_providers_forget(struct usdt_providers *n, uint32_t pid);

/* Whether the process maps the file with the handle `taken`. True as well of a process that was not scanned, or whose
 * files are more than are tracked. */
bool usdt_providers_may_map(const struct usdt_providers *n, uint32_t pid, const void *taken);

/* Schedules a scan of all processes: at the start, and when it is unknown which have changed. */
void usdt_providers_look_at_all(struct usdt_providers *n);
/* Capacity may have become free: files that were refused are offered again, some per second. */
void usdt_providers_retry_files(struct usdt_providers *n);
/* Does the pending work for about `budget_ns`. */
void usdt_providers_turn(struct usdt_providers *n, uint64_t budget_ns);

void usdt_providers_metrics(const struct usdt_providers *n, struct metric_set *set);
