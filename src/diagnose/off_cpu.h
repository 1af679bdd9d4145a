/* Why a thread did not run, as off-CPU profiles tell it: a leaf above its stack, "[disk: pread64]". */
#pragma once

#include "model/sample.h"

#include <linux/types.h>

#include "../../probes/offcpu.h"

#define OFF_CPU_TEXT_BYTES 64

/* The reason of a wait and its system call. `s` is the wait's sample, with its stack named. Returns `out`. */
const char *off_cpu_text(const struct off_cpu_wait *wait, const struct sample *s, char out[OFF_CPU_TEXT_BYTES]);

/* Of the time in which a thread was ready to run and had no CPU. */
#define OFF_CPU_RUN_QUEUE "[run queue]"
