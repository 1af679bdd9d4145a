/* Selects the processes whose records matter when sampling is restricted to process ids: those selected, their
 * descendants as followed by the BPF programs (probes/common/task_filter.bpf.h), and the ancestors of those selected,
 * because resource attributes are inherited from them even after they exit (resolve/process/processes.h). Other
 * processes are ignored: none of their files is opened, none of their /proc entries read. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/task_filter.h"

#include <stdbool.h>
#include <stdint.h>

struct record_header;
struct processes;
struct watched_processes;

/* `followed_fd`: the map of monitored processes, borrowed; negative: no map. Sets *ret to NULL if all processes
 * matter: none are selected by id. `filter` is copied as far as needed; the caller frees `*ret`. -ENOMEM. All functions
 * below accept NULL. */
int watched_processes_new(const struct task_filter *filter, int followed_fd, struct watched_processes **ret);
void watched_processes_free(struct watched_processes *w);
DEFINE_FREEP(watched_processes)

/* Adds the running processes, and reads the mappings of those selected. Called when process lifecycle events are
 * being recorded, and before the first sample. */
void watched_processes_start(struct watched_processes *w, struct processes *processes);

/* Whether this record concerns a watched process; to be called in time order. */
bool watched_processes_want(struct watched_processes *w, const struct record_header *record);
/* The process exited a while ago, or was evicted to save memory; a process that is still followed stays watched. */
void watched_processes_forget(struct watched_processes *w, uint32_t pid);
