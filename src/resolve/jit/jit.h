/* Symbol names of JIT code (Node, Java, .NET and other runtimes that write a perf map or a jitdump), from the files
 * that the runtime writes. The files are read incrementally as they grow, when a sample needs a name. Code that is
 * absent from them, or not read yet, stays unnamed; it never gets another function's name. Memory and bytes read per
 * second are bounded. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "resolve/jit/jit_name.h"
#include "resolve/process/processes.h"

#include <stddef.h>
#include <stdint.h>

struct jits;

/* `processes` is borrowed. `max_bytes` bounds the address ranges. -ENOMEM. */
int jits_new(struct processes *processes, size_t max_bytes, struct jits **ret);
/* Changes `max_bytes`; takes effect when the next file is read. */
void jits_set_max_bytes(struct jits *j, size_t max_bytes);
void jits_free(struct jits *j);
DEFINE_FREEP(jits)
/* Limits the name cache to `entries` names. */
void jits_limit(struct jits *j, size_t entries);

/* Starts a new pipeline turn: files may be checked for changes again. */
void jits_begin_turn(struct jits *j);
/* Sets the current time of the event records (CLOCK_MONOTONIC). Descriptions in a jitdump with a later timestamp are
 * not used yet. */
void jits_at(struct jits *j, uint64_t time_ns);

/* The name of the code at `address`; strings are valid until the next call. -ENOENT: no name is known. */
int jits_find(struct jits *j, const struct process *process, uint64_t address, struct jit_name *ret);

/* Frees everything about a process that has exited. */
void jits_forget(struct jits *j, uint32_t pid);
/* Frees the data of processes without recent lookups, and the name cache; both can be read again. */
void jits_trim(struct jits *j);

void jits_metrics(const struct jits *j, struct metric_set *set);
