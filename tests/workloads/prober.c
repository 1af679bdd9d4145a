/* Fires probes of libsonde: `prober [DIRECTORY [COUNT]]`; an empty DIRECTORY means no directory. A dynamic provider has
 * `workload:all` with every type of argument and, added after loading, `workload:late`; a static one has
 * `workload:compiled`. Without COUNT a hundred times a second; with it COUNT times at each SIGUSR1, each firing
 * numbered, and prints "fired" after the last. */
#include <sonde/probe.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct sonde_probe *all, *late;

static void fire(int64_t n)
{
    sonde_probe_fire(all, -8, 8, -16, 16, -32, 32, -64, UINT64_MAX, (void *)0x1234, "text", 2.5, -12);
    sonde_probe_fire(late, "late text", -1234.5678, n);
    SONDE_PROBE(workload, compiled, n, "compiled text", (unsigned char)200, -3);
}

int main(int argc, char **argv)
{
    struct sonde_provider *provider;
    const long count = argc > 2 ? atol(argv[2]) : 0;
    sigset_t start;
    int signal;
    if (sonde_provider_new("workload", &provider) < 0 ||
        sonde_provider_set_directory(provider, argc > 1 && *argv[1] ? argv[1] : NULL) < 0 ||
        sonde_probe_add(provider, "all",
                        "i8 a, u8 b, i16 c, u16 d, i32 e, u32 f, i64 g, u64 h, ptr i, str j, f64 k, i32 l", &all) < 0 ||
        sonde_provider_load(provider) < 0 || sonde_probe_add(provider, "late", "str text, f64 x, i64 n", &late) < 0 ||
        sonde_provider_load(provider) < 0)
        return 1;
    sigemptyset(&start);
    sigaddset(&start, SIGUSR1);
    if (count && sigprocmask(SIG_BLOCK, &start, NULL) < 0)
        return 1;
    printf("pid %d\nready\n", getpid());
    fflush(stdout);
    for (int64_t n = 0; !count; n++) {
        fire(n);
        usleep(10000);
    }
    for (int64_t n = 0; sigwait(&start, &signal) == 0;) {
        for (long i = 0; i < count; i++)
            fire(n++);
        printf("fired\n");
        fflush(stdout);
    }
    return 1;
}
