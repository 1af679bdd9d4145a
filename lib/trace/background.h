/* Common to the library's threads: they block all signals and wait by CLOCK_MONOTONIC. */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC, in the form of otlp_sender_options.now_ns. */
uint64_t trace_clock_ns(void *unused);

/* The time `ms` milliseconds from now. */
struct timespec trace_deadline(unsigned ms);

/* Initialises condition variables with CLOCK_MONOTONIC deadlines. */
int trace_conditions_init(pthread_cond_t *a, pthread_cond_t *b);

/* Starts a thread with all signals blocked, because signals belong to the server. */
int trace_background_start(pthread_t *ret_thread, void *(*run)(void *argument), void *argument);
