/* C, with DWARF: each request computes for 120 ms in a function that calls the C library. With -DBURN_INLINED,
 * this function is inlined into main. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ITEMS 2000

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

#ifdef BURN_INLINED
#define BURN static inline __attribute__((always_inline))
#else
#define BURN static __attribute__((noinline))
#endif

BURN void burn_items(double seconds)
{
    static double sum;
    const double end = cpu_seconds() + seconds;
    while (cpu_seconds() < end)
        for (int i = 0; i < ITEMS; i++) {
            char text[32];
            snprintf(text, sizeof(text), "%d.%d", rand(), i);
            sum += strtod(text, NULL);
        }
}

int main(int argc, char **argv)
{
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons((unsigned short)atoi(argv[argc - 1])),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char reply[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    char request[4096];
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(listener, (const struct sockaddr *)&at, sizeof(at)) || listen(listener, 64))
        return 1;
    for (int client; (client = accept(listener, NULL, NULL)) >= 0; close(client))
        if (read(client, request, sizeof(request)) > 0) {
            burn_items(0.12);
            if (write(client, reply, sizeof(reply) - 1) < 0)
                return 1;
        }
}
