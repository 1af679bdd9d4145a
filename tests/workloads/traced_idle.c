/* Traces with the settings of its options (libsonde), but no requests; works all the time. */
#include <sonde/trace.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static volatile uint64_t sink;

int main(int argc, char **argv)
{
    struct sonde_trace_config *config;
    struct sonde_trace_manager *manager;
    char why[200] = "";
    if (sonde_trace_config_new(&config) < 0 ||
        sonde_trace_config_take(config, &argc, argv, why, sizeof(why)) < 0 ||
        sonde_trace_manager_new(config, NULL, &manager, why, sizeof(why)) < 0)
        return fprintf(stderr, "%s\n", why), 1;
    printf("pid %d\nready\n", getpid());
    fflush(stdout);
    for (;;) {
        for (uint64_t i = 0; i < 20000000; i++)
            sink += i;
        usleep(30000);
    }
}
