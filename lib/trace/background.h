/* What the library's own threads have in common: they take no signals and wait by CLOCK_MONOTONIC. */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC, in the form of otlp_sender_options.now_ns. */
uint64_t trace_clock_ns(void *unused);

/* The moment in so many milliseconds. */
struct timespec trace_deadline(unsigned ms);

/* Conditions whose deadlines are of CLOCK_MONOTONIC. */
int trace_conditions_init(pthread_cond_t *a, pthread_cond_t *b);

/* Signals are the server's: the thread has all of them blocked. */
int trace_background_start(pthread_t *ret_thread, void *(*run)(void *argument), void *argument);
