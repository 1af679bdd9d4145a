/* Fires numbered:some with its argument, a thousand times a second: `numbered NUMBER`. */
#include <sonde/probe.h>

#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sonde_provider *provider;
    struct sonde_probe *probe;
    if (argc < 2 || sonde_provider_new("numbered", &provider) < 0 ||
        sonde_probe_add(provider, "some", "i32 n", &probe) < 0 || sonde_provider_load(provider) < 0)
        return 1;
    for (;; usleep(1000))
        sonde_probe_fire(probe, atoi(argv[1]));
}
