/* A static probe in a program without libsonde: alone:here, a thousand times a second. `computed` counts the evaluations of its arguments;
 * before it is ready, the program has passed the probe a hundred times. */
#include <sonde/static_probe.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    unsigned char small = 200;
    const char *text = "no library";
    for (long n = 0, computed = 0;; n++) {
        if (n == 100) {
            printf("pid %d\nready\n", getpid());
            fflush(stdout);
        }
        if (SONDE_PROBE_ENABLED(alone, here))
            SONDE_PROBE(alone, here, n, -1, small, text, ++computed);
        usleep(n < 100 ? 0 : 1000);
    }
}
