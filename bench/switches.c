/* Threads that switch a hundred thousand times per second: two pass a byte back and forth on one CPU, with a little
 * work before each write, and keep it busy; four on the other CPU sleep for a millisecond at a time. Their names
 * distinguish the two kinds. Their progress is the kernel's count of context switches. Runs until killed. */
#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <unistd.h>

enum { SLEEPERS = 4, SLEEP_NS = 1000000, WORK_NS = 7500 };

static int to[2], fro[2];

static void be(const char *name, int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_setname_np(pthread_self(), name);
    sched_setaffinity(0, sizeof(set), &set); /* on a machine with a single CPU they share it */
}

static int turns = 1 << 20; /* until main() has calibrated it for WORK_NS */

static bool work(void)
{
    for (volatile int i = 0; i < turns; i++)
        ;
    return true;
}

static int turns_of(double ns)
{
    double best_ns = 0;
    for (int i = 0; i < 9; i++) {
        double began_ns = now_ns();
        work();
        double took_ns = now_ns() - began_ns;
        best_ns = i == 0 || took_ns < best_ns ? took_ns : best_ns;
    }
    return (int)(turns * ns / best_ns);
}

static void *answer(void *unused)
{
    char byte;
    be("handing", 1);
    while (read(to[0], &byte, 1) == 1 && work() && write(fro[1], &byte, 1) == 1)
        ;
    return unused;
}

static void *ask(void *unused)
{
    char byte = 0;
    be("handing", 1);
    while (work() && write(to[1], &byte, 1) == 1 && read(fro[0], &byte, 1) == 1)
        ;
    return unused;
}

static void *sleep_often(void *unused)
{
    be("sleeping", 0);
    for (;;)
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    return unused;
}

int main(void)
{
    pthread_t thread;
    turns = turns_of(WORK_NS);
    must(pipe(to) == 0 && pipe(fro) == 0, "pipe");
    must(pthread_create(&thread, NULL, answer, NULL) == 0 && pthread_create(&thread, NULL, ask, NULL) == 0, "threads");
    for (int i = 0; i < SLEEPERS; i++)
        must(pthread_create(&thread, NULL, sleep_often, NULL) == 0, "threads");
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
