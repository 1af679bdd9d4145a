/* C, with DWARF: each request computes for 120 ms in a function that calls the C library. */
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ITEMS 20000

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) static void burn_items(double seconds)
{
    static int values[ITEMS];
    const double end = cpu_seconds() + seconds;
    while (cpu_seconds() < end) {
        for (int i = 0; i < ITEMS; i++)
            values[i] = rand();
        qsort(values, ITEMS, sizeof(values[0]), compare);
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
