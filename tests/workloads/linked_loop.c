/* Threads that interleave requests: `linked_loop PORT` (0: any, which is printed).
 *
 * One thread owns all connections (poll). "/loop-..." is handled in two steps, and the second step of a request
 * follows the first step of another; in each step the thread works for that request alone, as event loops switch
 * contexts. "/pool-..." is read there and handled by one of two threads of a pool, which also writes the reply.
 * "/fork-..." forks in the middle; the child continues, for another request. Ids are derived from the last two
 * letters of the route; `linked` uses the first two. */
#include <sonde/probe.h>

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECTIONS 64

static struct sonde_probe *enter, *leave;
static int to_pool[2];

struct connection {
    int fd; /* -1: none */
    char route[64];
    int steps; /* completed */
};

static uint64_t id_of(const char *route)
{
    const size_t n = strlen(route);
    return n < 2 ? 0 : (uint64_t)(unsigned char)route[n - 2] << 8 | (unsigned char)route[n - 1];
}

static void step(uint64_t id)
{
    sonde_probe_fire(enter, (uint64_t)0x1111, id, (uint64_t)0xc1, (uint64_t)1);
    usleep(20000);
    sonde_probe_fire(leave, (uint64_t)0, (uint64_t)0, (uint64_t)0, (uint64_t)0);
}

static void reply(struct connection *c)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    if (write(c->fd, text, sizeof(text) - 1) < 0)
        perror("write");
    c->route[0] = '\0';
    c->steps = 0;
}

static void *pool(void *argument)
{
    struct connection c;
    (void)argument;
    while (read(to_pool[0], &c, sizeof(c)) == sizeof(c)) {
        step(id_of(c.route));
        reply(&c);
    }
    return NULL;
}

static void fork_and_step(uint64_t id)
{
    sonde_probe_fire(enter, (uint64_t)0x1111, id, (uint64_t)0xc1, (uint64_t)1);
    const pid_t child = fork();
    if (child == 0) {
        step(0xdead);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    sonde_probe_fire(leave, (uint64_t)0, (uint64_t)0, (uint64_t)0, (uint64_t)0);
}

/* False: the connection is closed. */
static bool take(struct connection *c)
{
    char request[4096];
    const ssize_t n = read(c->fd, request, sizeof(request) - 1);
    if (n <= 0)
        return false;
    request[n] = '\0';
    sscanf(request, "GET /%63[^ ]", c->route);
    if (strncmp(c->route, "loop", 4) == 0) {
        step(id_of(c->route));
        c->steps = 1;
    } else if (strncmp(c->route, "pool", 4) == 0) {
        if (write(to_pool[1], c, sizeof(*c)) != sizeof(*c))
            return false;
        c->route[0] = '\0';
    } else {
        fork_and_step(id_of(c->route));
        reply(c);
    }
    return true;
}

static void finish_loops(struct connection *all)
{
    int waiting = 0;
    for (int i = 0; i < CONNECTIONS; i++)
        waiting += all[i].fd >= 0 && all[i].steps == 1;
    for (int i = 0; waiting >= 2 && i < CONNECTIONS; i++) {
        if (all[i].fd < 0 || all[i].steps != 1)
            continue;
        step(id_of(all[i].route));
        reply(&all[i]);
    }
}

static void serve(int listening)
{
    struct connection all[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; i++)
        all[i] = (struct connection){.fd = -1};
    for (;;) {
        struct pollfd fds[CONNECTIONS + 1];
        for (int i = 0; i < CONNECTIONS; i++)
            fds[i] = (struct pollfd){.fd = all[i].fd, .events = POLLIN};
        fds[CONNECTIONS] = (struct pollfd){.fd = listening, .events = POLLIN};
        poll(fds, CONNECTIONS + 1, -1);
        for (int i = 0; i < CONNECTIONS; i++)
            if (all[i].fd >= 0 && fds[i].revents && !take(&all[i])) {
                close(all[i].fd);
                all[i] = (struct connection){.fd = -1};
            }
        finish_loops(all);
        for (int i = 0; fds[CONNECTIONS].revents && i < CONNECTIONS; i++)
            if (all[i].fd < 0) {
                all[i].fd = accept(listening, NULL, NULL);
                break;
            }
    }
}

int main(int argc, char **argv)
{
    static const char arguments[] = "u64 trace_id_high, u64 trace_id_low, u64 span_id, u64 id";
    struct sonde_provider *provider;
    pthread_t threads[2];
    if (argc != 2 || pipe(to_pool) < 0 || sonde_provider_new("sonde_trace", &provider) < 0 ||
        sonde_probe_add(provider, "thread_enter", arguments, &enter) < 0 ||
        sonde_probe_add(provider, "thread_leave", arguments, &leave) < 0 || sonde_provider_load(provider) < 0)
        return 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(argv[1])),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(listening, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(listening, 64) < 0)
        return 1;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, pool, NULL);
    socklen_t size = sizeof(address);
    getsockname(listening, (struct sockaddr *)&address, &size);
    printf("port %d\npid %d\nready\n", ntohs(address.sin_port), getpid());
    fflush(stdout);
    serve(listening);
}
