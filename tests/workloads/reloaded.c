/* Fires reloaded:some a thousand times a second; at each SIGUSR1 it unloads its provider and loads it again.
 * The argument counts the loads. */
#include <sonde/probe.h>

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t is_asked;

static void ask(int number)
{
    is_asked = number;
}

int main(void)
{
    struct sonde_provider *provider;
    struct sonde_probe *probe;
    if (sonde_provider_new("reloaded", &provider) < 0 ||
        sonde_probe_add(provider, "some", "i32 load", &probe) < 0)
        return 1;
    signal(SIGUSR1, ask);
    printf("pid %d\nready\n", getpid());
    fflush(stdout);
    for (int load = 0;; usleep(1000)) {
        if (is_asked) {
            is_asked = 0;
            sonde_provider_unload(provider);
            if (sonde_provider_load(provider) < 0)
                return 1;
            load++;
        }
        sonde_probe_fire(probe, load);
    }
}
