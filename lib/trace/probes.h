/* The provider `sonde_trace`: what whoever is attached from outside hears of every request, sampled or not,
 * and of the threads that work for it. One a process, loaded while there is a manager (fork.c). Until
 * somebody is attached it is one word that is 0. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sonde_trace;

/* By what a trace is known outside: the bytes of both identifiers in the order in which they are sent. */
struct trace_who {
    uint8_t trace_id[16];
    uint64_t span_id;
    uint64_t id; /* that of the file, or 0 */
};

/* The semaphores of all four probes, which stand side by side in the provider's object. */
extern _Atomic(const uint64_t *) trace_listeners;

static inline bool trace_probes_heard(void)
{
    const uint64_t *listeners = atomic_load_explicit(&trace_listeners, memory_order_acquire);
    return __builtin_expect(__atomic_load_n(listeners, __ATOMIC_RELAXED) != 0, 0);
}

/* One at a time. Without the rights or the memory for it the probes stay silent. */
void trace_probes_load(void);
void trace_probes_unload(void);

void trace_probes_start(const struct sonde_trace *t);
void trace_probes_end(const struct sonde_trace *t);
void trace_probes_enter(const struct trace_who *who);
void trace_probes_leave(const struct trace_who *holds_again);
