/* Asserts that a request with an injected cause is reported with that cause; see request_cause.h. */
#include "request_cause.h"

#include "requests.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

unsigned long long taken_ticks(void)
{
    unsigned long long irq = 0, softirq = 0;
    FILE *f = fopen("/proc/stat", "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "cpu %*u %*u %*u %*u %*u %llu %llu", &irq, &softirq), 2);
    fclose(f);
    return irq + softirq;
}

uint64_t taken_ns(unsigned long long ticks_before)
{
    unsigned long long ticks = taken_ticks() - ticks_before;
    return ticks ? (ticks + 1) * 1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK) : 0;
}

/* Ratio of the thread clock to wall time, which differs from 1 on an emulated machine. The maximum of several
 * measurements, because a preempted thread measures less. */
static double thread_clock_rate(void)
{
    static double most;
    for (int i = 0; most == 0 || i < 5; i++) {
        struct timespec a, b;
        const uint64_t start = clock_monotonic_ns();
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
        while (clock_monotonic_ns() - start < 10000000)
            ;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
        const double rate = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) /
                            (double)(clock_monotonic_ns() - start);
        most = rate > most ? rate : most;
    }
    return most > 1 ? most : 1;
}

/* CPU time is the injected time, less the time that the thread's clock adds for each switch off the CPU. A sleep
 * starts before the thread leaves the CPU, and where two threads meet, one may be late. */
static uint64_t least_of(enum request_part_kind kind)
{
    const uint64_t asked_ns = CAUSE_MS * 1000000ull;
    if (kind == REQUEST_PART_CPU)
        return (uint64_t)((double)(asked_ns - asked_ns / 100) / thread_clock_rate());
    return kind == REQUEST_PART_SLEEP ? asked_ns / 2 : asked_ns / 4;
}

/* The injected wait is complete, and nothing but CPU and run queue time has any weight besides it. */
static void assert_cause(const struct request *r, enum request_part_kind kind, const char *detail,
                         unsigned long long ticks_before)
{
    bool found = false;
    if (total(r, kind) < least_of(kind))
        fail_msg("%s: %llu ns of %s in %llu ns; cause: %s", r->route, (unsigned long long)total(r, kind),
                 request_part_name(kind), (unsigned long long)r->duration_ns, r->cause);
    for (int other = 0; other < REQUEST_PART_COUNT; other++)
        if (other != (int)kind && other != REQUEST_PART_STEAL && other != REQUEST_PART_CPU &&
            other != REQUEST_PART_RUN_QUEUE && other != REQUEST_PART_OTHER && other != REQUEST_PART_LOCK &&
            other != REQUEST_PART_UNATTRIBUTED && total(r, other) > r->duration_ns / 10)
            fail_msg("%s: false cause %s, %llu of %llu ns", r->route, request_part_name(other),
                     (unsigned long long)total(r, other), (unsigned long long)r->duration_ns);
    for (size_t i = 0; i < r->part_count; i++)
        found |= r->parts[i].kind == kind && strstr(r->parts[i].detail, detail);
    if (!found)
        fail_msg("%s: no component with detail \"%s\"; cause: %s", r->route, detail, r->cause);
    if (kind != REQUEST_PART_CPU) /* a computing thread loses time to interrupts and hypervisors */
        assert_true(total(r, REQUEST_PART_UNATTRIBUTED) <= r->duration_ns / 10 + taken_ns(ticks_before));
}

void expect_cause(int server, const char *target, const char *route, enum request_part_kind kind, const char *detail,
                  unsigned long long ticks_before)
{
    const struct request *r = NULL;
    for (size_t n = 1; n <= 3 && (!r || total(r, kind) < least_of(kind)); n++) {
        send_request(server, "GET", target);
        r = await_requests(server == PREFORK ? 0 : servers[server], route, n);
    }
    assert_cause(r, kind, detail, ticks_before);
}
