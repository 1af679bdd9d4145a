/* A window: the time in which a recorder is attached and CUPTI records what runs on the GPU. Outside a window the
 * library is subscribed to nothing. All functions but window_fork: one thread at a time. */
#pragma once

#include <stdbool.h>

/* A recorder is attached: subscribes to CUPTI and begins to record. Reports whether that succeeded, through the probe
 * "record". */
void window_open(void);

/* Every 100 ms in a window: collects what is finished, and reports it. */
void window_tick(void);

/* Collects and reports what remains, and ends recording. CUPTI is left as it was before the window; where that needs a
 * call of the program, waits up to a second for one if `waits`. */
void window_close(bool waits);

/* In a child process after fork: the window, if there is one, is the parent's. */
void window_fork(void);
