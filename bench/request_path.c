/* The cost of a request inside the kernel, without anything else: a process reads a request and writes a reply on 64
 * connections in turn, timed while all requests have arrived already. It includes no wait and no context switch, so a
 * busy machine gives the same result. `request-path ROUNDS [opaque]` prints the 10th percentile over rounds, in
 * nanoseconds per request; opaque: the requests are records of TLS. */
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define CONNECTIONS 64
#define ROUNDS_MAX  100000

#define TLS_HEAD    "\x17\x03\x03\x01\x01" /* application data of TLS 1.2, 257 bytes */

struct exchange {
    const char *request, *head;
};

static const struct exchange http = {
    "GET /index.html HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Type: text/html\r\nConnection: keep-alive\r\n\r\n"};
/* About as long as the HTTP exchange. */
static const struct exchange opaque = {
    TLS_HEAD "index.html HTTP/1.1\r\nHost: localhost\r\n\r\n",
    TLS_HEAD "200 OK\r\nContent-Length: 6\r\nContent-Type: text/html\r\nConnection: keep-alive\r\n\r\n"};
static char body[] = "hello\n";

static void set_undelayed(int fd)
{
    int one = 1;
    must(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0, "setsockopt");
}

/* Sends a request on every connection, signals `ready`, and reads the replies after a byte arrives on `served`. */
static void be_client(const struct sockaddr_in *address, const struct exchange *exchange, int ready, int served)
{
    int fds[CONNECTIONS];
    char data[4096];
    for (int i = 0; i < CONNECTIONS; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        must(connect(fds[i], (const struct sockaddr *)address, sizeof(*address)) == 0, "connect");
        set_undelayed(fds[i]);
    }
    do {
        for (int i = 0; i < CONNECTIONS; i++)
            must(write(fds[i], exchange->request, strlen(exchange->request)) > 0, "write");
        must(write(ready, "x", 1) == 1, "write");
        if (read(served, data, 1) != 1)
            _exit(0);
        for (int i = 0; i < CONNECTIONS; i++)
            must(read(fds[i], data, sizeof(data)) > 0, "read");
    } while (1);
}

static double serve_round(const struct exchange *exchange, const int *fds)
{
    char data[4096];
    const size_t head_bytes = strlen(exchange->head);
    double began_ns = now_ns();
    for (int i = 0; i < CONNECTIONS; i++) {
        struct iovec reply[2] = {{(char *)exchange->head, head_bytes}, {body, sizeof(body) - 1}};
        must(read(fds[i], data, sizeof(data)) > 0, "read");
        must(writev(fds[i], reply, 2) > 0, "writev");
    }
    return (now_ns() - began_ns) / CONNECTIONS;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

int main(int argc, char **argv)
{
    static double times[ROUNDS_MAX];
    int rounds = argc > 1 ? atoi(argv[1]) : 2000, ready[2], served[2], fds[CONNECTIONS];
    const struct exchange *exchange = argc > 2 && !strcmp(argv[2], "opaque") ? &opaque : &http;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    must(rounds > 0 && rounds <= ROUNDS_MAX, "rounds");
    must(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, CONNECTIONS) == 0, "listen");
    must(getsockname(listener, (struct sockaddr *)&address, &size) == 0 && pipe(ready) == 0 && pipe(served) == 0,
         "pipe");
    pid_t client = fork();
    must(client >= 0, "fork");
    if (client == 0) {
        close(served[1]);
        be_client(&address, exchange, ready[1], served[0]);
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        fds[i] = accept(listener, NULL, NULL);
        must(fds[i] >= 0, "accept");
        set_undelayed(fds[i]);
    }
    for (int i = 0; i < rounds; i++) {
        char byte;
        must(read(ready[0], &byte, 1) == 1, "read");
        times[i] = serve_round(exchange, fds);
        must(write(served[1], "x", 1) == 1, "write");
    }
    qsort(times, (size_t)rounds, sizeof(times[0]), compare);
    printf("%.0f\n", times[rounds / 10]);
    return 0;
}
