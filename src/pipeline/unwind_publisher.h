/* Publishes to the BPF programs the data to unwind the stacks of sampled processes, and removes it when the
 * processes exit: the mappings of processes, and the unwind tables of objects that appeared in a stack (the cache knows
 * which). So an unwind table exists only for code that runs, and once per object, however many processes map it.
 *
 * This never changes what a sample contains: a stack whose unwind table is missing in the kernel is copied and finished
 * in user space, and ends with UNWIND_END_NO_TABLE where that is not possible. Pipeline thread only; tables are built
 * by another thread (unwind_builder.h).
 *
 * Where programs are compiled, new executable files appear all the time. An agent therefore builds tables within a
 * share of one CPU: UNWIND_SHARE. At most UNWIND_SHARE_BURST_NS of it can be saved up. Objects wait for the share. The
 * next one is the object whose rules walks in user space looked up most often, divided by its size. An object that no
 * process maps is not built, nor one that a single walk needed. When less than half of the burst is saved up, an object
 * is built only if
 * - it has been waiting for a second,
 * - its lookups have cost an eighth of the cost of building.
 * So where many programs run once, for a moment, the share goes to those that are sampled again. */
#pragma once

#include "base/cleanup.h"
#include "model/loss.h"
#include "model/metric.h"

#include <stdbool.h>
#include <stdint.h>

#define UNWIND_SHARE          0.003
#define UNWIND_SHARE_BURST_NS 300000000ull

struct interpreters;
struct process;
struct unwind_cache;
struct unwind_tables;
struct unwind_publisher;

/* All are borrowed (`interpreters` NULL: interpreters are not detected). From now on the cache defers large files to
 * the publisher. `share`: of one CPU, for building tables; 0: builds at once what a sample needs. The caller frees
 * `*ret`. As unwind_builder_new. */
int unwind_publisher_new(struct unwind_tables *tables, struct unwind_cache *cache, struct interpreters *interpreters,
                         double share, struct unwind_publisher **ret);
void unwind_publisher_free(struct unwind_publisher *p);
DEFINE_FREEP(unwind_publisher)

/* A sample of this process (NULL: unknown) was resolved. Cheap if nothing has changed since the last one. */
void unwind_publisher_want(struct unwind_publisher *p, const struct process *process);

/* Publishes all code that the process maps, sampled or not, so that its next stack is unwound completely. True when
 * done: the kernel has an unwind table for every readable file that has one. False: call again after the next
 * unwind_publisher_run. May build tables that no sample ever needs, outside the share. */
bool unwind_publisher_prepare(struct unwind_publisher *p, const struct process *process);

/* This process has mapped code. If any of it is in the kernel already (the program was run before), the process is
 * published at once, so that even a short-lived process is unwound from its first sample on. Call once per turn and
 * process. */
void unwind_publisher_mapped(struct unwind_publisher *p, const struct process *process);

/* Once a turn: publishes finished tables, and removes objects that have been unused for a while. */
void unwind_publisher_run(struct unwind_publisher *p);
/* The same at a given CLOCK_MONOTONIC time; for tests. */
void unwind_publisher_run_at(struct unwind_publisher *p, uint64_t now_ns);

/* Whether a process was seen that needs the runtime unwinders (Node, Java), loaded or not. */
bool unwind_publisher_met_runtime(const struct unwind_publisher *p);

/* Removes from the kernel the tables of code that no sampled process has mapped lately. */
void unwind_publisher_trim(struct unwind_publisher *p);

/* The process has exited, or executed another program. */
void unwind_publisher_forget(struct unwind_publisher *p, uint32_t pid);

/* Adds LOSS_MAP_FULL: tables and mappings that did not fit. */
void unwind_publisher_losses(const struct unwind_publisher *p, struct losses *losses);
void unwind_publisher_metrics(struct unwind_publisher *p, struct metric_set *set);
