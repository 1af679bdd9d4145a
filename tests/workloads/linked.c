/* Fires the probes of the provider sonde_trace, as documented in sonde/trace.h, to link its threads to requests:
 * `linked [PORT]`.
 *
 * Without PORT two threads wait for SIGUSR1, then handle requests until the next one. Each burns CPU in functions
 * that belong to one request: outer's, inner's within it, outer's again, and then none. With WORKLOAD_FIRE=N they
 * handle one request each, calling getppid() N times in each function, and the program exits. With PORT (0: any,
 * which is printed) it is a single-threaded server; the route selects its work. The ids are printed:
 * "ids NAME TRACE_ID SPAN_ID". */
#include "workload.h"

#include <sonde/probe.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WORK 2000000

static struct sonde_probe *enter, *leave;
static volatile sig_atomic_t signals;
static volatile uint64_t sink;
static pthread_barrier_t ids_printed;
static long firings;

struct ids {
    uint64_t high, low, span;
};

#define BURNS(name, factor)                                                                                            \
    __attribute__((noinline)) static void name(void)                                                                   \
    {                                                                                                                  \
        for (uint64_t i = 0; !firings && i < WORK; i++)                                                                \
            sink += i * (factor);                                                                                      \
        for (long i = 0; i < firings; i++, sink += (factor))                                                           \
            WORKLOAD_SYSTEM_CALL();                                                                                    \
    }

BURNS(burn_outer, 3) /* different, or the compiler merges them */
BURNS(burn_inner, 5)
BURNS(burn_unlinked, 7)

static void on_signal(int number)
{
    (void)number;
    signals++;
}

static void begin(const struct ids *ids)
{
    sonde_probe_fire(enter, ids->high, ids->low, ids->span, 1);
}

/* NULL: no request becomes active again */
static void end(const struct ids *again)
{
    static const struct ids none;
    again = again ? again : &none;
    sonde_probe_fire(leave, again->high, again->low, again->span, 0);
}

static void *work(void *argument)
{
    const uint64_t number = (uint64_t)(uintptr_t)argument, high = 0xfedcba9876543200 + number;
    const struct ids outer = {high, 1, 0xa000000000000001 + number}, inner = {high, 2, 0xb000000000000001 + number};
    const long tid = syscall(SYS_gettid);
    printf("ids burn_outer-%ld %016lx%016lx %016lx\n", tid, outer.high, outer.low, outer.span);
    printf("ids burn_inner-%ld %016lx%016lx %016lx\n", tid, inner.high, inner.low, inner.span);
    pthread_barrier_wait(&ids_printed);
    while (signals == 0)
        usleep(1000);
    while (signals == 1) {
        begin(&outer);
        burn_outer();
        begin(&inner);
        burn_inner();
        end(&outer);
        burn_outer();
        end(NULL);
        burn_unlinked();
        if (firings)
            return NULL;
    }
    while (1)
        burn_unlinked();
}

/* Serves "/ROUTE", with ids from its first letters. */
static void serve(const char *route)
{
    const struct ids a = {0x1111, (uint64_t)route[0] << 8 | (uint64_t)route[1], 0xc1}, b = {0x2222, a.low, 0xc2};
    if (strncmp(route, "unlinked", 8) != 0)
        begin(&a);
    usleep(3000);
    if (strncmp(route, "several", 7) == 0)
        begin(&b);
    usleep(3000);
    if (strncmp(route, "late", 4) != 0 && strncmp(route, "unlinked", 8) != 0)
        end(NULL);
}

static void serve_connection(int fd)
{
    static const char reply[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    char request[4096];
    for (ssize_t n; (n = read(fd, request, sizeof(request) - 1)) > 0;) {
        request[n] = '\0';
        const char *route = strchr(request, '/') ? strchr(request, '/') + 1 : "";
        serve(route);
        if (write(fd, reply, sizeof(reply) - 1) < 0)
            break;
        if (strncmp(route, "late", 4) == 0) /* continues after its reply */
            end(NULL);
    }
    close(fd);
}

static int serve_on(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(listening, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(listening, 64) < 0)
        return 1;
    socklen_t size = sizeof(address);
    getsockname(listening, (struct sockaddr *)&address, &size);
    printf("port %d\npid %d\nready\n", ntohs(address.sin_port), getpid());
    fflush(stdout);
    for (int fd; (fd = accept(listening, NULL, NULL)) >= 0;)
        serve_connection(fd);
    return 1;
}

int main(int argc, char **argv)
{
    static const char arguments[] = "u64 trace_id_high, u64 trace_id_low, u64 span_id, u64 id";
    struct sonde_provider *provider;
    pthread_t threads[2];
    if (sonde_provider_new("sonde_trace", &provider) < 0 ||
        sonde_probe_add(provider, "thread_enter", arguments, &enter) < 0 ||
        sonde_probe_add(provider, "thread_leave", arguments, &leave) < 0 || sonde_provider_load(provider) < 0)
        return 1;
    if (argc > 1)
        return serve_on((uint16_t)atoi(argv[1]));
    firings = getenv("WORKLOAD_FIRE") ? atol(getenv("WORKLOAD_FIRE")) : 0;
    signal(SIGUSR1, on_signal);
    pthread_barrier_init(&ids_printed, NULL, 3);
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    pthread_barrier_wait(&ids_printed);
    printf("pid %d\nready\n", getpid());
    fflush(stdout);
    for (uintptr_t i = 0; firings && i < 2; i++)
        pthread_join(threads[i], NULL);
    while (!firings)
        pause();
    return 0;
}
