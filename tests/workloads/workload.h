/* Shared by the test workloads: they print their true stack, print that they are ready, burn CPU in a known leaf
 * function until their time is over, and print how much CPU they used.
 *
 * On standard output, one fact per line (tests/harness/workloads.py reads them):
 *     stack main;recurse;recurse;leaf     root first; "..." stands for up to eight frames of the C library
 *     pid 4711
 *     ready                               the stack is as printed from here on
 *     cpu_ns 1999000000                   at the end: user and system time of the process
 * Everything is in the header, so that a workload is one file and one compiler call. */
#pragma once

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone, used))
/* Prevents the preceding call from becoming a tail call. */
#define STAY __asm__ volatile("" ::: "memory")

static volatile sig_atomic_t workload_over;
static volatile sig_atomic_t workload_firings; /* system calls that the leaf still has to make */

static inline void workload_on_alarm(int signal_number)
{
    (void)signal_number;
    workload_over = 1;
}

static inline void workload_on_fire(int signal_number)
{
    (void)signal_number;
    const char *count = getenv("WORKLOAD_FIRE");
    workload_firings = count ? atoi(count) : 0;
}

/* With WORKLOAD_FIRE in the environment, sleeps until SIGUSR1. */
static inline void workload_wait_to_fire(void)
{
    while (getenv("WORKLOAD_FIRE") && !workload_firings && !workload_over)
        usleep(1000);
}

static inline uint64_t workload_cpu_ns(int who)
{
    struct rusage u;
    getrusage(who, &u);
    return ((uint64_t)u.ru_utime.tv_sec + (uint64_t)u.ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)u.ru_utime.tv_usec + (uint64_t)u.ru_stime.tv_usec) * 1000u;
}

/* CPU time of this process in nanoseconds. */
static inline uint64_t workload_own_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* workload_over becomes true after `seconds` of wall time. */
static inline void workload_end_after(double seconds)
{
    struct sigaction action = {0};
    action.sa_handler = workload_on_alarm;
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = workload_on_fire;
    sigaction(SIGUSR1, &action, NULL);
    struct itimerval timer = {{0, 0}, {(time_t)seconds, (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)}};
    if (seconds > 0)
        setitimer(ITIMER_REAL, &timer, NULL);
}

static inline void workload_ready(const char *stack)
{
    if (stack)
        printf("stack %s\n", stack);
    printf("pid %d\nready\n", (int)getpid());
    fflush(stdout);
}

/* With WORKLOAD_STAY in the environment, waits for SIGTERM: data that is read from a running process can still be
 * read. */
static inline void workload_stay(void)
{
    sigset_t set;
    int number;
    if (!getenv("WORKLOAD_STAY"))
        return;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    printf("fired\n");
    fflush(stdout);
    sigwait(&set, &number);
    unsetenv("WORKLOAD_STAY");
}

static inline int workload_end(void)
{
    workload_stay();
    printf("cpu_ns %llu\n", (unsigned long long)workload_cpu_ns(RUSAGE_SELF));
    fflush(stdout);
    return 0;
}

/* getppid() without a call. */
#if defined(__x86_64__)
#define WORKLOAD_SYSTEM_CALL()                                                                                         \
    do {                                                                                                               \
        long result_;                                                                                                  \
        __asm__ volatile("syscall" : "=a"(result_) : "a"((long)SYS_getppid) : "rcx", "r11", "memory");                 \
    } while (0)
#else
#define WORKLOAD_SYSTEM_CALL()                                                                                         \
    do {                                                                                                               \
        register long number_ __asm__("x8") = SYS_getppid;                                                             \
        register long result_ __asm__("x0");                                                                           \
        __asm__ volatile("svc 0" : "=r"(result_) : "r"(number_) : "memory");                                           \
    } while (0)
#endif

/* The body of a leaf: busy in this very function, no calls. With WORKLOAD_FIRE=N in the environment, SIGUSR1 makes it
 * call getppid() N times, an event to record, and end. */
#define WORKLOAD_BURN() WORKLOAD_BURN_UNTIL(workload_over, workload_firings)

/* The same in a library, which has variables of its own with the same names. */
#define WORKLOAD_BURN_UNTIL(over, firings)                                                                             \
    do {                                                                                                               \
        volatile uint64_t x_ = 88172645463325252u;                                                                     \
        while (!(over)) {                                                                                              \
            x_ = x_ * 6364136223846793005u + 1;                                                                        \
            for (; (firings); (over) = --(firings) == 0)                                                               \
                WORKLOAD_SYSTEM_CALL();                                                                                \
        }                                                                                                              \
    } while (0)

static inline double workload_seconds(int argc, char **argv, int index)
{
    return argc > index ? atof(argv[index]) : 5;
}
