/* A test workload: a child of the test program that only executes requests. It is blocked, off its CPU,
 * whenever workload_start() or workload_run() has returned, so that what a source records of it can be counted
 * exactly. */
#pragma once

#include "threads.h"
#include "watch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct workload {
    pid_t pid;
    int go, done;
};

/* Forks. The child calls `enter`, which sets up a stack and state and finally calls workload_serve(); NULL: it serves
 * at once. The child ends with the test program. */
struct workload workload_start(void (*enter)(void *context), void *context);
void workload_end(struct workload *w);

/* In the child: serves requests. */
_Noreturn void workload_serve(void);

/* For a child whose loop is not written in C: it writes a byte to the second descriptor before it blocks, reads a
 * request of this size from the first, handles it, and repeats. */
#define WORKLOAD_REQUEST_BYTES 16
void workload_ends(int *ret_requests, int *ret_answers);

/* Has the child call `work(count)`, and returns when it is blocked again. */
void workload_run(struct workload *w, void (*work)(unsigned), unsigned count);
/* The same in two steps. */
void workload_begin(struct workload *w, void (*work)(unsigned), unsigned count);
void workload_await(struct workload *w);

/* ---- workload functions that a child can run ---- */

/* Page faults of the child's own instruction; each is an event "page-faults". */
void workload_fault(unsigned count);
/* Whether the sample is of workload_fault's instruction. */
bool workload_faulted(const struct stack_record *s);
/* Calls getppid(); each call is one "tracepoint:syscalls:sys_enter_getppid". */
void workload_call(unsigned count);
#define WORKLOAD_CALL_EVENT "tracepoint:syscalls:sys_enter_getppid"

/* Sleeps in clock_nanosleep() until workload_interrupt() wakes it, `count` times. */
void workload_nap(unsigned count);
/* Alternates between clock_nanosleep() and ppoll(). */
void workload_nap_in_two_places(unsigned count);
/* Lets each of `count` naps last for at least hold_ns after the child was seen blocked in it, then ends it with a
 * signal. */
void workload_interrupt(const struct workload *w, unsigned count, uint64_t hold_ns);
void workload_interrupt_in_two_places(const struct workload *w, unsigned count);

/* ---- recording the workload ---- */

/* Opens the CPU source on the event, with a period of 1, and starts it. */
struct watch workload_watch(struct watch_options options, const char *event);
/* Stops the source and drains it: calls `check` for every record and asserts that it returned true `count` times, less
 * what the source counts as missed, and that nothing else was lost. The source may be started again. */
void workload_expect(struct watch *w, uint64_t count, bool (*check)(const struct record_header *, void *),
                     void *context);
/* Frees what watch_begin or workload_watch returned. */
void workload_unwatch(struct watch *w);
