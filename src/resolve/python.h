/* CPython's frames: tells the kernel half where a process keeps its interpreter, takes in what the kernel half tells of code
 * objects, and names the frames that samples carry (probes/python.h). Bounded; what had to be forgotten is asked for again.
 * Nothing of a process is read here. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"

#include <linux/types.h>

#include "../../probes/python.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct process;
struct pythons;

int pythons_new(size_t max_bytes, struct pythons **ret);
void pythons_free(struct pythons *p);
DEFINE_FREEP(pythons)

/* How the kernel half reads the process's interpreter. False: it has none that can be read. */
bool pythons_layout(struct pythons *p, const struct process *process, struct python_layout *ret);

/* Takes in a code object of a sound record. */
void pythons_take(struct pythons *p, const struct python_code *record);

struct python_name {
    const char *function; /* co_qualname */
    const char *file;     /* co_filename */
    uint32_t line;        /* 0: the instruction has none, or its table is too long to be told */
};

/* Of an entry that is no mark; texts hold until the next pythons_take. -ENOENT: it was never told, or forgotten. */
int pythons_find(struct pythons *p, uint32_t pid, const struct python_entry *entry, struct python_name *ret);

/* What was asked for and not known since the last call, for the kernel half to tell again: at most `max`; the rest waits for its next use. */
struct python_missing {
    uint64_t code;
    uint32_t pid, check;
};
size_t pythons_missing(struct pythons *p, struct python_missing *ret, size_t max);

void pythons_metrics(const struct pythons *p, struct metric_set *set);
