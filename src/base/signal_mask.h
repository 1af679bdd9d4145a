/* Leaves the handling of signals to the main thread: a thread is created with the signal mask of its creator. */
#pragma once

#include <pthread.h>
#include <signal.h>

/* Blocks all signals of the calling thread, and of threads that it creates from here on. `*ret_before` is for
 * signal_mask_restore. */
void signal_mask_block(sigset_t *ret_before);
void signal_mask_restore(const sigset_t *before);

/* Creates a thread that handles no signals. 0 or -errno. */
int signal_mask_create_thread(pthread_t *ret, void *(*run)(void *context), void *context);
