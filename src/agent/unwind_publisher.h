/* Gives the kernel half what it needs to walk the stacks of the programs that are being sampled, and takes it
 * away when they have gone: mappings of processes, and tables of the objects that a walk has come by (the
 * cache knows: it was asked for them). So tables exist only for code that runs, once an object, however many
 * processes map it.
 *
 * Nothing here changes what a sample says: a stack whose rows the kernel does not have is copied and finished
 * in user space. Pipeline thread only; large tables are built by a thread of its own (unwind_builder.h). */
#pragma once

#include "base/cleanup.h"
#include "model/loss.h"
#include "model/metric.h"

#include <stdbool.h>
#include <stdint.h>

struct interpreters;
struct process;
struct unwind_cache;
struct unwind_tables;
struct unwind_publisher;

/* All are borrowed (`interpreters` NULL: no interpreter is looked for); large files are left to the publisher by the
 * cache from now on. */
int unwind_publisher_new(struct unwind_tables *tables, struct unwind_cache *cache, struct interpreters *interpreters,
                         struct unwind_publisher **ret);
void unwind_publisher_free(struct unwind_publisher *p);
DEFINE_FREEP(unwind_publisher)

/* A sample of this process (NULL: unknown) has been resolved. Cheap when nothing has changed since the last
 * one. */
void unwind_publisher_want(struct unwind_publisher *p, const struct process *process);

/* Publishes all code that the process maps, sampled or not, so that its next stack is walked whole. True when that is
 * done: the kernel has an unwind table for every file that has one and can be read. False: call again after the next
 * unwind_publisher_run. Costs the building of tables that no sample may ever need. */
bool unwind_publisher_prepare(struct unwind_publisher *p, const struct process *process);

/* This process has mapped code: if any of it is in the kernel already (the program was run before), the
 * process is published at once, so that also one that lives for a moment is walked from its first sample on.
 * Call once a turn and process. */
void unwind_publisher_mapped(struct unwind_publisher *p, const struct process *process);

/* Once a turn: puts what has been built, removes what nobody has used for a while. */
void unwind_publisher_run(struct unwind_publisher *p);
/* The same at a given CLOCK_MONOTONIC time, for tests. */
void unwind_publisher_run_at(struct unwind_publisher *p, uint64_t now_ns);

/* Whether a process was met whose frames the kernel half reads as it passes them (Node, Java), if it was loaded with
 * that. */
bool unwind_publisher_met_runtime(const struct unwind_publisher *p);

/* Takes out of the kernel what no process maps any more, or nobody has sampled lately. */
void unwind_publisher_trim(struct unwind_publisher *p);

/* The process has gone, or runs another program. */
void unwind_publisher_forget(struct unwind_publisher *p, uint32_t pid);

/* Adds LOSS_MAP_FULL: tables and mappings that found no room. */
void unwind_publisher_losses(const struct unwind_publisher *p, struct losses *losses);
void unwind_publisher_metrics(struct unwind_publisher *p, struct metric_set *set);
