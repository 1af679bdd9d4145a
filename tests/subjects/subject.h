/* What the programs to observe have in common: they say what their true stack is, say that they are ready, burn CPU in a known
 * leaf until their time is over, and say how much CPU they used.
 *
 * On standard output, one fact a line (tests/harness/workloads.py reads them):
 *     stack main;recurse;recurse;leaf     root first; "..." stands for up to eight frames of the C library
 *     pid 4711
 *     ready                               the stack holds from here on
 *     cpu_ns 1999000000                   at the end: user and system time of the process
 * Everything is in the header, so that a subject is one file and one compiler call. */
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
/* After a call, so that it is no tail call. */
#define STAY __asm__ volatile("" ::: "memory")

static volatile sig_atomic_t subject_over;
static volatile sig_atomic_t subject_firings; /* system calls that the leaf still has to make */

static inline void subject_on_alarm(int signal_number)
{
    (void)signal_number;
    subject_over = 1;
}

static inline void subject_on_fire(int signal_number)
{
    (void)signal_number;
    const char *count = getenv("SUBJECT_FIRE");
    subject_firings = count ? atoi(count) : 0;
}

/* With SUBJECT_FIRE in the environment, sleeps until SIGUSR1. */
static inline void subject_wait_to_fire(void)
{
    while (getenv("SUBJECT_FIRE") && !subject_firings && !subject_over)
        usleep(1000);
}

static inline uint64_t subject_cpu_ns(int who)
{
    struct rusage u;
    getrusage(who, &u);
    return ((uint64_t)u.ru_utime.tv_sec + (uint64_t)u.ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)u.ru_utime.tv_usec + (uint64_t)u.ru_stime.tv_usec) * 1000u;
}

/* Of this process, to the nanosecond: to work for so long. */
static inline uint64_t subject_own_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* subject_over becomes true after `seconds` of wall time. */
static inline void subject_end_after(double seconds)
{
    struct sigaction action = {0};
    action.sa_handler = subject_on_alarm;
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = subject_on_fire;
    sigaction(SIGUSR1, &action, NULL);
    struct itimerval timer = {{0, 0}, {(time_t)seconds, (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)}};
    if (seconds > 0)
        setitimer(ITIMER_REAL, &timer, NULL);
}

static inline void subject_ready(const char *stack)
{
    if (stack)
        printf("stack %s\n", stack);
    printf("pid %d\nready\n", (int)getpid());
    fflush(stdout);
}

/* With SUBJECT_STAY in the environment, waits for SIGTERM: what is read of a process while it runs can still be read. */
static inline void subject_stay(void)
{
    sigset_t set;
    int number;
    if (!getenv("SUBJECT_STAY"))
        return;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    printf("fired\n");
    fflush(stdout);
    sigwait(&set, &number);
    unsetenv("SUBJECT_STAY");
}

static inline int subject_end(void)
{
    subject_stay();
    printf("cpu_ns %llu\n", (unsigned long long)subject_cpu_ns(RUSAGE_SELF));
    fflush(stdout);
    return 0;
}

/* getppid() without a call. */
#if defined(__x86_64__)
#define SUBJECT_SYSTEM_CALL() \
    do { \
        long result_; \
        __asm__ volatile("syscall" : "=a"(result_) : "a"((long)SYS_getppid) : "rcx", "r11", "memory"); \
    } while (0)
#else
#define SUBJECT_SYSTEM_CALL() \
    do { \
        register long number_ __asm__("x8") = SYS_getppid; \
        register long result_ __asm__("x0"); \
        __asm__ volatile("svc 0" : "=r"(result_) : "r"(number_) : "memory"); \
    } while (0)
#endif

/* The body of a leaf: busy in this very function, no calls. With SUBJECT_FIRE=N in the environment, SIGUSR1 makes it call
 * getppid() N times, an event to record, and end. */
#define SUBJECT_BURN() SUBJECT_BURN_UNTIL(subject_over, subject_firings)

/* The same in a library, which has variables of its own of these names. */
#define SUBJECT_BURN_UNTIL(over, firings) \
    do { \
        volatile uint64_t x_ = 88172645463325252u; \
        while (!(over)) { \
            x_ = x_ * 6364136223846793005u + 1; \
            for (; (firings); (over) = --(firings) == 0) \
                SUBJECT_SYSTEM_CALL(); \
        } \
    } while (0)

static inline double subject_seconds(int argc, char **argv, int index)
{
    return argc > index ? atof(argv[index]) : 5;
}
