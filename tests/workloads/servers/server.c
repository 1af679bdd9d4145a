/* A small HTTP/1.1 server whose requests are slow for a cause that the client selects, to test the diagnosis.
 *
 *     server threads|epoll|prefork|pool PORT DIRECTORY     prints "ready" once it listens; PORT 0: any, printed before
 * as "port N"
 *
 *     /ok                  at once                 /lock?ms=N         waits for a mutex that another thread holds
 *     /cpu?ms=N            computes                /downstream?ms=N&port=P   asks 127.0.0.1:P for /sleep?ms=N
 *     /sleep?ms=N          nanosleep               /chunked?ms=N&n=K  K chunks, N ms apart
 *     /disk?ms=N           writes and syncs        /hangup            closes without a reply
 *     /status?code=N       that status             /pipe?ms=N         reads from a pipe that is written N ms later
 *     /large               32 MiB, a piece whenever poll() reports space
 *     /upgrade?ms=N        101, and N ms later data of another protocol
 *     /handed?ms=N         sends the reply's head, another thread its body N ms later; &bytes=K: a body of K bytes by
 * one send; &close=1: closes the connection as soon as that send is under way /naps?ms=N           sleeps N/4, and N in
 * another function; /chunked?...&after=N sleeps N after its reply, too
 *
 * threads: one thread per connection. epoll: one thread, an event loop, handlers block it. prefork: four processes that
 * accept. pool: one thread reads the requests, four others reply. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REQUEST_MAX 65536

/* Functions that are looked for on stacks; NOT_LAST keeps their frame while they call the last one. */
#define NOINLINE   __attribute__((noinline))
#define NOT_LAST() __asm__ volatile("")

static const char *directory;

static unsigned long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec;
}

static NOINLINE void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static NOINLINE void nap_short(long ms)
{
    sleep_ms(ms / 4);
    NOT_LAST();
}

static NOINLINE void nap_long(long ms)
{
    sleep_ms(ms);
    NOT_LAST();
}

static NOINLINE void nap_after_reply(long ms)
{
    sleep_ms(ms);
    NOT_LAST();
}

static long number(const char *target, const char *name, long otherwise)
{
    const char *at = strstr(target, name);
    return at ? strtol(at + strlen(name), NULL, 10) : otherwise;
}

/* ---- causes ---- */

/* By the thread's own CPU clock: this much is computed under any load. */
static unsigned long long cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec;
}

static void burn(long ms)
{
    unsigned long long end = cpu_ns() + (unsigned long long)ms * 1000000;
    volatile unsigned long x = 0;
    while (cpu_ns() < end)
        for (int i = 0; i < 1000; i++)
            x = x + (unsigned long)i;
}

struct held {
    pthread_mutex_t mutex;
    int ready[2];
    long ms;
};

static void *hold(void *context)
{
    struct held *h = context;
    pthread_mutex_lock(&h->mutex);
    if (write(h->ready[1], "", 1) != 1)
        abort();
    sleep_ms(h->ms);
    pthread_mutex_unlock(&h->mutex);
    return NULL;
}

static NOINLINE void wait_for_lock(long ms)
{
    struct held h = {.ms = ms};
    pthread_t holder;
    char byte;
    pthread_mutex_init(&h.mutex, NULL);
    if (pipe(h.ready) < 0 || pthread_create(&holder, NULL, hold, &h) != 0 || read(h.ready[0], &byte, 1) != 1)
        abort();
    pthread_mutex_lock(&h.mutex);
    pthread_mutex_unlock(&h.mutex);
    pthread_join(holder, NULL);
    close(h.ready[0]);
    close(h.ready[1]);
}

static void *write_later(void *context)
{
    struct held *h = context;
    sleep_ms(h->ms);
    if (write(h->ready[1], "", 1) != 1)
        abort();
    return NULL;
}

static void wait_for_pipe(long ms)
{
    struct held h = {.ms = ms};
    pthread_t writer;
    char byte;
    if (pipe(h.ready) < 0 || pthread_create(&writer, NULL, write_later, &h) != 0 || read(h.ready[0], &byte, 1) != 1)
        abort();
    pthread_join(writer, NULL);
    close(h.ready[0]);
    close(h.ready[1]);
}

static void wait_for_disk(long ms)
{
    char path[256], block[65536] = {1};
    unsigned long long end = now_ns() + (unsigned long long)ms * 1000000;
    snprintf(path, sizeof(path), "%s/written-%d-%lx", directory, getpid(), (unsigned long)pthread_self());
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        abort();
    do { /* at least once: opening it may have waited as long for a journal */
        if (pwrite(fd, block, sizeof(block), 0) < 0 || fsync(fd) < 0)
            abort();
    } while (now_ns() < end);
    close(fd);
    unlink(path);
}

static void ask_downstream(long ms, long port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((unsigned short)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char text[512];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        abort();
    int n = snprintf(text, sizeof(text), "GET /sleep?ms=%ld HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n", ms);
    if (write(fd, text, (size_t)n) != n)
        abort();
    while (read(fd, text, sizeof(text)) > 0)
        ;
    close(fd);
}

/* ---- one request ---- */

static bool send_all(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data += n;
        size -= (size_t)n;
    }
    return true;
}

static bool reply(int fd, long status, bool close_after, bool head)
{
    char text[256];
    int n = snprintf(text, sizeof(text), "HTTP/1.1 %ld Whatever\r\nContent-Length: 3\r\n%s\r\n%s", status,
                     close_after ? "Connection: close\r\n" : "", head ? "" : "ok\n");
    return send_all(fd, text, (size_t)n) && !close_after;
}

static bool reply_chunked(int fd, long ms, long n, long after)
{
    const char *start = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    if (!send_all(fd, start, strlen(start)))
        return false;
    for (long i = 0; i < n; i++) {
        sleep_ms(ms);
        if (!send_all(fd, "3\r\nok\n\r\n", 8))
            return false;
    }
    bool stays = send_all(fd, "0\r\n\r\n", 5);
    if (after)
        nap_after_reply(after);
    return stays;
}

/* As some event loops do: never sends more than the socket has space for, so that no send is short. */
static bool reply_large(int fd)
{
    static const char piece[65536];
    size_t left = 32 << 20;
    char head[128];
    int loop = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLOUT};
    if (loop < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) < 0)
        abort();
    int n = snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", left);
    bool stays = send_all(fd, head, (size_t)n);
    for (; stays && left; left -= sizeof(piece))
        stays = epoll_wait(loop, &event, 1, -1) == 1 && send_all(fd, piece, sizeof(piece));
    close(loop);
    return stays;
}

#define UPGRADED "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

static bool reply_and_go_on_otherwise(int fd, long ms)
{
    bool stays = send_all(fd, UPGRADED, strlen(UPGRADED));
    sleep_ms(ms);
    if (stays)
        send_all(fd, "\x81\x05hello", 7);
    return false;
}

struct handed {
    int fd;
    long ms, bytes;
};

static void *send_body(void *context)
{
    struct handed *h = context;
    char *body = calloc(1, (size_t)h->bytes);
    if (!body)
        abort();
    memcpy(body + h->bytes - 3, "ok\n", 3);
    sleep_ms(h->ms);
    send_all(h->fd, body, (size_t)h->bytes);
    free(body);
    free(h);
    return NULL;
}

static bool reply_by_two_threads(int fd, long ms, long bytes, bool close_early)
{
    char head[128];
    struct handed *h = malloc(sizeof(*h));
    pthread_t thread;
    int queued = 0;
    snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %ld\r\n\r\n", bytes);
    if (!h)
        abort();
    *h = (struct handed){fd, ms, bytes};
    if (!send_all(fd, head, strlen(head)) || pthread_create(&thread, NULL, send_body, h) != 0)
        abort();
    pthread_detach(thread);
    while (close_early && ioctl(fd, TIOCOUTQ, &queued) == 0 && queued < 65536)
        sleep_ms(1);
    return !close_early;
}

/* False: close the connection. */
static bool serve(int fd, const char *request)
{
    char method[16] = "", target[1024] = "", version[16] = "";
    if (sscanf(request, "%15s %1023s %15s", method, target, version) != 3)
        return false;
    bool close_after = strstr(request, "Connection: close") || strcmp(version, "HTTP/1.0") == 0;
    long ms = number(target, "ms=", 0), status = 200;
    if (strncmp(target, "/cpu", 4) == 0)
        burn(ms);
    else if (strncmp(target, "/sleep", 6) == 0)
        sleep_ms(ms);
    else if (strncmp(target, "/lock", 5) == 0)
        wait_for_lock(ms);
    else if (strncmp(target, "/disk", 5) == 0)
        wait_for_disk(ms);
    else if (strncmp(target, "/pipe", 5) == 0)
        wait_for_pipe(ms);
    else if (strncmp(target, "/downstream", 11) == 0)
        ask_downstream(ms, number(target, "port=", 0));
    else if (strncmp(target, "/chunked", 8) == 0)
        return reply_chunked(fd, ms, number(target, "n=", 3), number(target, "after=", 0)) && !close_after;
    else if (strncmp(target, "/large", 6) == 0)
        return reply_large(fd);
    else if (strncmp(target, "/upgrade", 8) == 0)
        return reply_and_go_on_otherwise(fd, ms);
    else if (strncmp(target, "/handed", 7) == 0)
        return reply_by_two_threads(fd, ms, number(target, "bytes=", 3), number(target, "close=", 0));
    else if (strncmp(target, "/naps", 5) == 0) {
        nap_short(ms);
        nap_long(ms);
    } else if (strncmp(target, "/status", 7) == 0)
        status = number(target, "code=", 200);
    else if (strncmp(target, "/hangup", 7) == 0)
        return false;
    return reply(fd, status, close_after, strcmp(method, "HEAD") == 0);
}

struct connection {
    int fd;
    size_t size;
    char data[REQUEST_MAX + 1];
};

/* Length of the first complete request in the buffer, 0 if it is incomplete. */
static size_t whole_request(const struct connection *c)
{
    const char *end = strstr(c->data, "\r\n\r\n");
    if (!end)
        return 0;
    size_t size = (size_t)(end - c->data) + 4;
    const char *length = strstr(c->data, "Content-Length: ");
    if (length && length < end)
        size += strtoul(length + 16, NULL, 10);
    return size;
}

/* Receives once and serves complete requests; bodies larger than the buffer are discarded as they arrive. False:
 * close. */
static bool advance(struct connection *c)
{
    ssize_t n = recv(c->fd, c->data + c->size, REQUEST_MAX - c->size, 0);
    if (n <= 0)
        return false;
    c->size += (size_t)n;
    c->data[c->size] = 0;
    for (size_t whole; (whole = whole_request(c)) > 0;) {
        char *end = strstr(c->data, "\r\n\r\n");
        size_t head = (size_t)(end - c->data) + 4;
        if (strstr(c->data, "Expect: 100-continue") && c->size == head)
            send_all(c->fd, "HTTP/1.1 100 Continue\r\n\r\n", 25);
        while (c->size < whole) {
            char sink[65536];
            size_t left = whole - c->size;
            n = recv(c->fd, sink, left < sizeof(sink) ? left : sizeof(sink), 0);
            if (n <= 0)
                return false;
            whole -= (size_t)n;
        }
        if (!serve(c->fd, c->data))
            return false;
        memmove(c->data, c->data + whole, c->size - whole + 1);
        c->size -= whole;
    }
    return c->size < REQUEST_MAX;
}

/* ---- server models ---- */

static void *serve_connection(void *context)
{
    struct connection *c = calloc(1, sizeof(*c));
    c->fd = (int)(long)context;
    while (advance(c))
        ;
    close(c->fd);
    free(c);
    return NULL;
}

static void serve_threads(int listener)
{
    for (;;) {
        pthread_t thread;
        long fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && pthread_create(&thread, NULL, serve_connection, (void *)fd) == 0)
            pthread_detach(thread);
    }
}

static void serve_prefork(int listener)
{
    for (int i = 0; i < 4; i++)
        if (fork() == 0)
            for (;;) {
                long fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
                if (fd >= 0)
                    serve_connection((void *)fd);
            }
    while (wait(NULL) > 0)
        ;
}

static void serve_epoll(int listener)
{
    int loop = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN}, events[64];
    if (loop < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, listener, &event) < 0)
        abort();
    for (;;) {
        int n = epoll_wait(loop, events, 64, -1);
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (!c) {
                c = calloc(1, sizeof(*c));
                c->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
                event = (struct epoll_event){.events = EPOLLIN, .data.ptr = c};
                epoll_ctl(loop, EPOLL_CTL_ADD, c->fd, &event);
            } else if (!advance(c)) {
                epoll_ctl(loop, EPOLL_CTL_DEL, c->fd, NULL); /* a thread that sends on it keeps it open */
                close(c->fd);
                free(c);
            }
        }
    }
}

static int jobs[2];

static void *work(void *context)
{
    (void)context;
    struct connection *c;
    while (read(jobs[0], &c, sizeof(c)) == sizeof(c)) {
        serve(c->fd, c->data);
        shutdown(c->fd, SHUT_RDWR);
        close(c->fd);
        free(c);
    }
    return NULL;
}

/* One request per connection. */
static void serve_pool(int listener)
{
    if (pipe(jobs) < 0)
        abort();
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, NULL) != 0)
            abort();
    }
    for (;;) {
        struct connection *c = calloc(1, sizeof(*c));
        c->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (recv(c->fd, c->data, REQUEST_MAX, 0) <= 0) {
            close(c->fd);
            free(c);
        } else if (write(jobs[1], &c, sizeof(c)) != sizeof(c)) {
            abort();
        }
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*serve)(int listener);
    } ways[] = {{"threads", serve_threads}, {"epoll", serve_epoll}, {"prefork", serve_prefork}, {"pool", serve_pool}};
    if (argc != 4)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    directory = argv[3];
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((unsigned short)atoi(argv[2])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(listener, 512) < 0) {
        perror("listen");
        return 1;
    }
    socklen_t size = sizeof(address);
    if (atoi(argv[2]) == 0 && getsockname(listener, (struct sockaddr *)&address, &size) == 0)
        printf("port %d\n", ntohs(address.sin_port));
    puts("ready");
    fflush(stdout);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        if (strcmp(ways[i].name, argv[1]) == 0)
            ways[i].serve(listener);
    return 2;
}
