/* Which requests the calling thread works for, innermost last, and its publication for profilers that stop
 * the thread and look: OpenTelemetry's OTEP 4947, "Thread Context". Each thread sees its own alone. */
#pragma once

struct sonde_trace;

void trace_thread_context_enter(struct sonde_trace *t);

/* The innermost of that trace, which is not looked at: it may have ended. */
void trace_thread_context_leave(const struct sonde_trace *t);

/* The trace ends: it is left, as often as it was entered. */
void trace_thread_context_end(const struct sonde_trace *t);

/* The thread that came out of a fork works for nobody. */
void trace_thread_context_clear(void);
