/* Clocks. Records carry CLOCK_MONOTONIC nanoseconds (the kernel's bpf_ktime_get_ns); exported data carries Unix
 * nanoseconds. The offset is read at each conversion, so a stepped wall clock shifts later timestamps and never
 * changes a duration. */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

uint64_t clock_monotonic_ns(void);
uint64_t clock_boot_ns(void); /* CLOCK_BOOTTIME: also runs while the machine is suspended */
uint64_t clock_unix_ns(void);
/* CPU time of all threads of a process; 0 when it does not exist. */
uint64_t clock_process_cpu_ns(pid_t pid);
uint64_t clock_thread_cpu_ns(void); /* of the calling thread */

/* Unix time of a monotonic time, by the present offset between the clocks. */
uint64_t clock_unix_from_monotonic(uint64_t monotonic_ns);

uint64_t clock_ns_of(struct timespec t);
struct timespec clock_timespec_of(uint64_t ns);

/* Makes a condition variable whose pthread_cond_timedwait takes times of CLOCK_MONOTONIC. */
void clock_cond_init(pthread_cond_t *c);

/* "14:03:59", the local time of day of a Unix time. Returns `out`. */
#define CLOCK_TEXT_BYTES 16
const char *clock_time_of_day(uint64_t unix_ns, char out[CLOCK_TEXT_BYTES]);
