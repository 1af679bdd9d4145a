/* Explains off-CPU time for off-CPU profiles: the reason of a wait, as a leaf frame "[disk: pread64]", and its waker.
 */
#pragma once

#include "model/sample.h"

#include <linux/types.h>

#include "probes/offcpu.h"

#define OFF_CPU_TEXT_BYTES 64

/* The reason of a wait: "disk", "lock", "sleep", "network", "ipc", "events", "signal", "child", "stopped", "other".
 * `s` is the wait's sample, with resolved frames. */
const char *off_cpu_reason(const struct off_cpu_wait *wait, const struct sample *s);

/* Writes the reason of a wait and its system call. `s` is the wait's sample, with resolved frames. Returns `out`. */
const char *off_cpu_text(const struct off_cpu_wait *wait, const struct sample *s, char out[OFF_CPU_TEXT_BYTES]);

/* For time in the run queue: the thread was runnable and waited for a CPU. */
#define OFF_CPU_RUN_QUEUE        "[run queue]"
#define OFF_CPU_RUN_QUEUE_REASON "run_queue"

/* ---- the waker ---- */

/* How many frames of the waker's stack, from the leaf on, belong to the wake-up: all frames of a thread; of an
 * interrupt only the kernel frames down to its entry, because the frames below belong to the interrupted code.
 * Decided by the record (enum off_cpu_waker), or by function names where the BPF side cannot decide. */
size_t off_cpu_waker_frames(unsigned waker, const struct sample *s, bool *ret_is_interrupt);

/* Writes the frame above the wait: "[woken by worker]", with the process if its id is not `pid` (the waiter's). NULL
 * `s`: an interrupt. Returns `out`. */
const char *off_cpu_waker_text(const struct sample *s, uint32_t pid, char out[OFF_CPU_TEXT_BYTES]);

#define OFF_CPU_WAKER_NOT_SEEN "[waker not seen]"
