/* All interpreters whose frames are read (interpreter.h), as one: what is asked of them goes to the one that it
 * concerns, or to each. */
#pragma once

#include "base/cleanup.h"
#include "resolve/interpreter/interpreter.h"

struct interpreters;

/* Those there are, each at the number that samples have of it (enum interpreter_kind). A new one is a line there. */
extern const struct interpreter *const interpreters_known[INTERPRETER_COUNT];

/* `max_bytes` are for all together, by their shares. */
int interpreters_new(const struct interpreter *const *known, size_t count, size_t max_bytes, struct interpreters **ret);
void interpreters_free(struct interpreters *x);
DEFINE_FREEP(interpreters)
void interpreters_limit_cache(struct interpreters *x, size_t entries);

/* From now on what `layout` needs of processes' memory is read by this. */
void interpreters_read_by(struct interpreters *x, read_memory read, struct processes *processes);

/* Fills the members of those that the process has. -EAGAIN: one has just begun, and is to be asked for again in a
 * moment; -EBUSY: what it has is to be asked for again later. */
int interpreters_layout(struct interpreters *x, const struct process *process, struct interpreter_layouts *ret);

/* Whether code that is made in the process at run time has a layout of its own, and so no frame pointers to go by. */
bool interpreters_walk_code(const struct interpreters *x, const struct process *process);

/* Takes in a record that tells of code. -EBADMSG: it makes no sense, or is nobody's. */
int interpreters_take(struct interpreters *x, const struct record_header *record);

/* NULL: there is none of that number. */
const struct interpreter *interpreters_get(const struct interpreters *x, unsigned kind);

/* See find of struct interpreter. */
int interpreters_find(struct interpreters *x, unsigned kind, uint32_t pid, const struct python_entry *entry,
                      struct interpreted_name *ret);

/* The number of the interpreter whose evaluator that native function is; -ENOENT: it is nobody's. */
int interpreters_evaluator(const struct interpreters *x, const char *function);

/* See missing of struct interpreter. */
size_t interpreters_missing(struct interpreters *x, struct missing_code *ret, size_t max);

/* The name of the first of them, from number *from on, of which some were met whose frames cannot be read; *from goes
 * behind it. NULL: there is none more. */
const char *interpreters_unsupported(const struct interpreters *x, size_t *from);

void interpreters_metrics(const struct interpreters *x, struct metric_set *set);
