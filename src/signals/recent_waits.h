/* The places where threads waited and ran in the last seconds, as evidence for the critical paths of requests and for
 * slow system calls: in the processes of recent paths and of recent slow calls. Stacks are kept as they were recorded,
 * and get names when a path asks for them: of thousands of waits and samples, few are on a path. Memory is bounded: the
 * newest entries overwrite the oldest. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "diagnose/path/path_names.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct recent_waits;
struct sample;
struct stack_record;

#define RECENT_WAITS_PROCESSES 256
#define RECENT_WAITS_BYTES     (2 << 20) /* of stacks and their texts */

/* Fills `ret`, valid until its next call. 0; -EAGAIN: filled, but source lines are still looked up, and the stack is
 * resolved again when a path needs it again; -EBADMSG: malformed record. */
typedef int recent_waits_resolve(void *context, const struct stack_record *record, struct sample *ret);

/* The caller frees `*ret`. -ENOMEM. */
int recent_waits_new(recent_waits_resolve *resolve, void *context, struct recent_waits **ret);
void recent_waits_free(struct recent_waits *w);
DEFINE_FREEP(recent_waits)

/* A request's path led through this process, or a system call of it was slow: its waits are wanted for a minute from
 * now on. Of more than RECENT_WAITS_PROCESSES, those named last. Returns whether it was not among them. */
bool recent_waits_want(struct recent_waits *w, uint32_t pid, uint64_t now_ns);
/* Drops those whose minute is over, and fills `ret` with the others. Returns their number. */
size_t recent_waits_wanted(struct recent_waits *w, uint64_t now_ns, uint32_t ret[RECENT_WAITS_PROCESSES]);

/* Keeps a copy of a stack by its name, unless it has it. Does nothing without memory. */
void recent_waits_put_stack(struct recent_waits *w, uint64_t name, const struct stack_record *record);
/* Thread `tid` waited in [start, end) at this stack. */
void recent_waits_put(struct recent_waits *w, uint32_t tid, uint64_t start_ns, uint64_t end_ns, uint64_t stack);

/* Adds to `tally` the code place of the first wait of thread `tid` that began in [from_ns, to_ns), if its stack is
 * known. */
void recent_waits_find_next(struct recent_waits *w, uint32_t tid, uint64_t from_ns, uint64_t to_ns,
                            struct code_tally *tally);

/* Thread `tid` was found running at this stack. */
void recent_waits_put_run(struct recent_waits *w, uint32_t tid, uint64_t time_ns, uint64_t stack);
/* Adds the code places where thread `tid` was found running in [from, to) to `tally`. */
void recent_waits_find_runs(struct recent_waits *w, uint32_t tid, uint64_t from_ns, uint64_t to_ns,
                            struct code_tally *tally);

/* Sets `ret` to the wait of thread `tid` with the most time in [from_ns, to_ns). Returns false if there is no wait, or
 * its stack is not known. Texts are valid until the next call of this module. */
bool recent_waits_find(struct recent_waits *w, uint32_t tid, uint64_t from_ns, uint64_t to_ns, struct path_wait *ret);
