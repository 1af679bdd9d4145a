/* All supported interpreters (interpreter.h) behind one interface: each call goes to the interpreter concerned, or to
 * all. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "resolve/interpreter/interpreter.h"

struct interpreters;

/* The supported interpreters, indexed by enum interpreter_kind as in samples. */
extern const struct interpreter *const interpreters_known[INTERPRETER_COUNT];

/* `max_bytes` is divided by memory_share. `known` is not kept, its elements are borrowed. -ENOMEM. */
int interpreters_new(const struct interpreter *const *known, size_t count, size_t max_bytes, struct interpreters **ret);
void interpreters_free(struct interpreters *x);
DEFINE_FREEP(interpreters)
/* See limit_cache of struct interpreter; applied to each interpreter. */
void interpreters_limit_cache(struct interpreters *x, size_t entries);

/* Sets the function that `layout` reads process memory with. `processes` is borrowed. */
void interpreters_read_by(struct interpreters *x, read_memory read, struct processes *processes);

/* Fills the members of the interpreters that the process holds; the others are zero. -EAGAIN: one is still starting;
 * call again soon. -EBUSY: files could not be read; call again later. */
int interpreters_layout(struct interpreters *x, const struct process *process, struct interpreter_layouts *ret);

/* Whether JIT code of the process is walked by an interpreter's layout, because it keeps no frame pointers. */
bool interpreters_walk_code(const struct interpreters *x, const struct process *process);

/* See walk_sleeping of struct interpreter; of the first interpreter that has frames of the thread. */
void interpreters_walk_sleeping(struct interpreters *x, const struct sleeping_thread *thread,
                                struct stack_record *record);

/* Registers the code that a record describes. -EBADMSG: malformed, or of no known interpreter. */
int interpreters_take(struct interpreters *x, const struct record_header *record);

/* The interpreter of an enum interpreter_kind; NULL: unknown kind. */
const struct interpreter *interpreters_get(const struct interpreters *x, unsigned kind);

/* See find of struct interpreter. */
int interpreters_find(struct interpreters *x, unsigned kind, uint32_t pid, const struct interpreter_entry *entry,
                      struct interpreted_name *ret);

/* The enum interpreter_kind of the interpreter whose evaluator this native function is. -ENOENT: it is no evaluator. */
int interpreters_evaluator(const struct interpreters *x, const char *function);

/* See missing of struct interpreter. */
size_t interpreters_missing(struct interpreters *x, struct missing_code *ret, size_t max);

/* The name of the next interpreter with unreadable instances, starting at index *from; advances *from
 * past it. NULL: no more. */
const char *interpreters_unsupported(const struct interpreters *x, size_t *from);

void interpreters_metrics(const struct interpreters *x, struct metric_set *set);
