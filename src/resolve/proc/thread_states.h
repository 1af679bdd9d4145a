/* What the threads of a process do at this moment, as /proc has it. */
#pragma once

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

struct thread_state {
    uint32_t tid;
    char name[16];
    char state;        /* of ps: 'S' */
    char function[48]; /* of the kernel, in which it waits; "": it runs, or the kernel does not say */
};

/* Fills `ret` with at most `max` threads, the thread `first` before all others. Returns how many the process has; 0: it
 * has ended. */
size_t thread_states_read(uint32_t pid, uint32_t first, struct thread_state *ret, size_t max);

/* Appends a thread after the other, at most `max` of them and THREAD_STATES_SHOWN: "4711 python3 S futex_wait_queue;
 * 4712 worker R". Nothing if the process has ended. */
#define THREAD_STATES_SHOWN 64
void thread_states_put(uint32_t pid, uint32_t first, size_t max, struct buf *out);
