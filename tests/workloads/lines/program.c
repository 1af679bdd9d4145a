/* Functions inlined into one another, each with an event in it. `program ROUNDS [wait]`: with `wait` it prints its pid
 * and waits for SIGUSR1; with WORKLOAD_STAY in the environment it prints `fired` after the last round and waits for
 * SIGTERM. */
#include "fire.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

volatile unsigned long sink;
static inline __attribute__((always_inline)) void innermost(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        sink += i * 7;
        FIRE();
    }
}
static inline __attribute__((always_inline)) void middle(unsigned n)
{
    sink++;
    innermost(n);
    FIRE();
}
__attribute__((noinline)) void outer(unsigned n)
{
    sink += n;
    middle(n);
    middle(n / 2);
    FIRE();
}
static void wait_for_signal(const char *word, int signal_number)
{
    sigset_t set;
    int number;
    sigemptyset(&set);
    sigaddset(&set, signal_number);
    sigprocmask(SIG_BLOCK, &set, NULL);
    printf("pid %d\n%s\n", (int)getpid(), word);
    fflush(stdout);
    sigwait(&set, &number);
}
int main(int argc, char **argv)
{
    if (argc > 2)
        wait_for_signal("ready", SIGUSR1);
    for (int left = argc > 1 ? atoi(argv[1]) : 5; left > 0; left--)
        outer(4);
    if (getenv("WORKLOAD_STAY"))
        wait_for_signal("fired", SIGTERM);
    return 0;
}
