/* Why a thread did not run, as off-CPU profiles tell it: a leaf above its stack, "[disk: pread64]"; and what ended
 * that. */
#pragma once

#include "model/sample.h"

#include <linux/types.h>

#include "probes/offcpu.h"

#define OFF_CPU_TEXT_BYTES 64

/* Why it was: "disk", "lock", "sleep", "network", "ipc", "events", "signal", "child", "stopped", "other". `s` is the
 * wait's sample, with its stack named. */
const char *off_cpu_reason(const struct off_cpu_wait *wait, const struct sample *s);

/* The reason of a wait and its system call. `s` is the wait's sample, with its stack named. Returns `out`. */
const char *off_cpu_text(const struct off_cpu_wait *wait, const struct sample *s, char out[OFF_CPU_TEXT_BYTES]);

/* Of the time in which a thread was ready to run and had no CPU. */
#define OFF_CPU_RUN_QUEUE        "[run queue]"
#define OFF_CPU_RUN_QUEUE_REASON "run_queue"

/* ---- who ended the wait ---- */

/* How many frames of the waker's stack are of what woke, from the leaf on: all of a thread's; of an interrupt the
 * kernel's, down to where it came in, for what lies below was only come upon. By what the kernel half says of it (enum
 * off_cpu_waker), and the functions' names where it cannot tell. */
size_t off_cpu_waker_frames(unsigned waker, const struct sample *s, bool *ret_is_interrupt);

/* A frame above the wait: "[woken by worker]", with the process where it is another one than `pid` (the waiter's). NULL
 * `s`: an interrupt. Returns `out`. */
const char *off_cpu_waker_text(const struct sample *s, uint32_t pid, char out[OFF_CPU_TEXT_BYTES]);

#define OFF_CPU_WAKER_NOT_SEEN "[waker not seen]"
