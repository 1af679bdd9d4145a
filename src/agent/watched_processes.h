/* Where processes are chosen by their numbers, most lives on a node are of nobody's business: which ones are. Those
 * chosen, their descendants as the kernel half follows them (probes/common/filter.bpf.h), and the ancestors of those
 * chosen, of whom who has gone inherits (resolve/process/processes.h). What happens to others need not be known: no
 * file of theirs is opened, no /proc read. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "sources/source.h"

#include <stdbool.h>
#include <stdint.h>

struct processes;
struct watched_processes;

/* Of the sources of samples that are open (borrowed; NULL: it is not). Hands back NULL where all processes matter: none
 * are chosen by number, or the wakers of those chosen are asked for. All below take that, too. */
int watched_processes_new(const struct source_options *options, void *cpu_source, void *off_cpu_source,
                          struct watched_processes **ret);
void watched_processes_free(struct watched_processes *w);
DEFINE_FREEP(watched_processes)

/* Who runs already, and what those chosen have mapped: called when lives are on record, and before anything is sampled.
 */
void watched_processes_start(struct watched_processes *w, struct processes *processes);

/* Whether this record, of any kind, tells of one; asked in order of time. */
bool watched_processes_want(struct watched_processes *w, const struct record_header *record);
/* It has ended, a while ago, or is not known any more to keep memory within bounds; who is followed still is watched as
 * before. */
void watched_processes_forget(struct watched_processes *w, uint32_t pid);
