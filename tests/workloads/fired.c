/* Fires PROVIDER:some, declared as DECLARATION, with VALUES: every PAUSE_US microseconds until a SIGUSR1, then a
 * hundred times a second. */
#include <sonde/probe.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FIRE(...) sonde_probe_fire(__VA_ARGS__) /* expands VALUES into several arguments */

static volatile sig_atomic_t pause_us = PAUSE_US;

static void slow_down(int number)
{
    (void)number;
    pause_us = 10000;
}

int main(void)
{
    struct sonde_provider *provider;
    struct sonde_probe *probe;
    char whole[80] = "", cut[80] = "";
    memset(whole, 'w', 62);
    memset(cut, 'c', 63);
    if (sonde_provider_new(PROVIDER, &provider) < 0 ||
        sonde_probe_add(provider, "some", DECLARATION, &probe) < 0 || sonde_provider_load(provider) < 0)
        return 1;
    signal(SIGUSR1, slow_down);
    printf("pid %d\nready\n", getpid());
    fflush(stdout);
    for (long n = 0;; n++, usleep((useconds_t)pause_us)) {
        (void)whole, (void)cut, (void)n;
        FIRE(probe, VALUES);
    }
}
