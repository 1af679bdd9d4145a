/* The requests that the calling thread works for, innermost last, and their publication for profilers that stop the
 * thread to read it: OTEP 4947 of OpenTelemetry, "Thread Context". Purely thread-local. */
#pragma once

struct sonde_trace;

void trace_thread_context_enter(struct sonde_trace *t);

/* Leaves the innermost entry of that trace. `t` is only compared, not dereferenced: it may have ended. */
void trace_thread_context_leave(const struct sonde_trace *t);

/* The trace ends: removes all its entries. */
void trace_thread_context_end(const struct sonde_trace *t);

/* After a fork the child's thread works for no request. */
void trace_thread_context_clear(void);
