/* Names of code that is made while a process runs (Node, Java, .NET and whoever else writes a perf map or a jitdump):
 * from the files that its runtime writes. They are read on as they grow, when a sample asks; what is not in them, or
 * not read yet, has no name, and never another one's. Bounded in memory and in what is read a second. Pipeline thread
 * only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "resolve/jit/jit_name.h"
#include "resolve/process/processes.h"

#include <stddef.h>
#include <stdint.h>

struct jits;

/* `processes` is borrowed. Ranges of code are kept within `max_bytes`. */
int jits_new(struct processes *processes, size_t max_bytes, struct jits **ret);
void jits_free(struct jits *j);
DEFINE_FREEP(jits)
/* At most `entries` names are remembered. */
void jits_limit(struct jits *j, size_t entries);

/* A new turn of the pipeline: files are looked at anew. */
void jits_begin_turn(struct jits *j);
/* What time it is in the records: of what is told with its time, what came later does not count yet. */
void jits_at(struct jits *j, uint64_t time_ns);

/* The name of the code at `address`; texts hold until the next call. -ENOENT: it has none that is known. */
int jits_find(struct jits *j, const struct process *process, uint64_t address, struct jit_name *ret);

/* The process has ended. */
void jits_forget(struct jits *j, uint32_t pid);
/* Gives back what can be read again, and was not asked for of late. */
void jits_trim(struct jits *j);

void jits_metrics(const struct jits *j, struct metric_set *set);
