/* See threads.h. Everything reads /proc. */
#include "threads.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_NS 60000000000ULL
#define RUNS        (-2)
#define GONE        (-3)

/* As ps(1) shows it; 0: no such thread. */
static char state_of(pid_t tid)
{
    char path[64], text[512];

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)tid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    const char *after = strrchr(text, ')');
    return after && after[1] ? after[2] : 0;
}

/* The number of the system call that blocks the thread; -1: it is blocked elsewhere; or RUNS. The file says
 * "running" for a thread that has not left its CPU yet, but not for one that another CPU is waking: its state is R. */
static long blocked_in(pid_t tid)
{
    char path[64];
    long number = RUNS;

    if (state_of(tid) == 'R')
        return RUNS;
    snprintf(path, sizeof(path), "/proc/%d/syscall", (int)tid);
    FILE *file = fopen(path, "re");
    if (!file)
        return GONE;
    if (fscanf(file, "%ld", &number) != 1)
        number = RUNS;
    fclose(file);
    return number;
}

/* A thread of the process that is blocked in this system call, or 0; `*ret_all`: all of them are blocked. */
static pid_t find_blocked(pid_t pid, long number, bool *ret_all)
{
    char path[64];
    pid_t found = 0;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    *ret_all = true;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        const pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        const long in = blocked_in(tid);
        found = in == number ? tid : found;
        *ret_all &= in != RUNS;
    }
    closedir(folder);
    return found;
}

static void pause_until(uint64_t end_ns, pid_t tid, const char *what)
{
    if (clock_monotonic_ns() > end_ns)
        fail_msg("%d is not %s after a minute", (int)tid, what);
    usleep(200);
}

void threads_await_blocked(pid_t tid, long number)
{
    const uint64_t end_ns = clock_monotonic_ns() + PATIENCE_NS;
    long in;

    while ((in = blocked_in(tid)) != number) {
        assert_int_not_equal(in, GONE);
        pause_until(end_ns, tid, "blocked");
    }
}

pid_t threads_await_one_blocked(pid_t pid, long number)
{
    const uint64_t end_ns = clock_monotonic_ns() + PATIENCE_NS;
    pid_t tid;
    bool all;

    while (!(tid = find_blocked(pid, number, &all)))
        pause_until(end_ns, pid, "blocked");
    return tid;
}

void threads_await_all_blocked(pid_t pid)
{
    const uint64_t end_ns = clock_monotonic_ns() + PATIENCE_NS;
    bool all;

    while ((void)find_blocked(pid, RUNS, &all), !all)
        pause_until(end_ns, pid, "blocked");
}

void threads_await_stopped(pid_t tid)
{
    const uint64_t end_ns = clock_monotonic_ns() + PATIENCE_NS;

    while (state_of(tid) != 'T')
        pause_until(end_ns, tid, "stopped");
}

uint64_t threads_switches(pid_t tid)
{
    char path[64], line[128];
    unsigned long long one, sum = 0;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "voluntary_ctxt_switches: %llu", &one) == 1 ||
            sscanf(line, "nonvoluntary_ctxt_switches: %llu", &one) == 1)
            sum += one;
    fclose(file);
    return sum;
}
