/* The cost of a request inside the kernel, without anything else: a process reads a request and writes a reply on 64
 * connections in turn, timed while all requests have arrived already. It includes no wait and no context switch, so a
 * busy machine gives the same result. `request-path ROUNDS [opaque | tls]` prints the 10th percentile over rounds, in
 * nanoseconds per request. opaque: the requests look like records of TLS. tls: they are, read by SSL_read and replied
 * to by SSL_write. */
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define CONNECTIONS 64
#define ROUNDS_MAX  100000

#define TLS_HEAD    "\x17\x03\x03\x01\x01" /* application data of TLS 1.2, 257 bytes */

#define ANONYMOUS   "ADH-AES128-GCM-SHA256:@SECLEVEL=0" /* needs no certificate */

struct exchange {
    const char *request, *head;
};

struct connection {
    int fd;
    SSL *ssl; /* NULL without TLS */
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

/* A connection on `fd`; over TLS with `tls`, of either end. */
static struct connection connection_of(int fd, SSL_CTX *tls, int (*handshake)(SSL *))
{
    set_undelayed(fd);
    struct connection c = {.fd = fd, .ssl = tls ? SSL_new(tls) : NULL};
    must(!tls || (c.ssl && SSL_set_fd(c.ssl, fd) == 1 && handshake(c.ssl) == 1), "TLS");
    return c;
}

static void receive(const struct connection *c)
{
    char data[4096];
    must((c->ssl ? SSL_read(c->ssl, data, sizeof(data)) : (int)read(c->fd, data, sizeof(data))) > 0, "read");
}

static void send_request(const struct connection *c, const char *request)
{
    const size_t bytes = strlen(request);
    must((c->ssl ? SSL_write(c->ssl, request, (int)bytes) : (int)write(c->fd, request, bytes)) > 0, "write");
}

static void reply(const struct connection *c, const char *head)
{
    if (c->ssl) {
        char data[4096];
        int bytes = snprintf(data, sizeof(data), "%s%s", head, body);
        must(SSL_write(c->ssl, data, bytes) == bytes, "SSL_write");
        return;
    }
    struct iovec parts[2] = {{(char *)head, strlen(head)}, {body, sizeof(body) - 1}};
    must(writev(c->fd, parts, 2) > 0, "writev");
}

/* Sends a request on every connection, signals `ready`, and reads the replies after a byte arrives on `served`. */
static void be_client(const struct sockaddr_in *address, const struct exchange *exchange, SSL_CTX *tls, int ready,
                      int served)
{
    struct connection connections[CONNECTIONS];
    char byte;
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        must(connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0, "connect");
        connections[i] = connection_of(fd, tls, SSL_connect);
    }
    do {
        for (int i = 0; i < CONNECTIONS; i++)
            send_request(&connections[i], exchange->request);
        must(write(ready, "x", 1) == 1, "write");
        if (read(served, &byte, 1) != 1)
            _exit(0);
        for (int i = 0; i < CONNECTIONS; i++)
            receive(&connections[i]);
    } while (1);
}

static double serve_round(const struct exchange *exchange, const struct connection *connections)
{
    double began_ns = now_ns();
    for (int i = 0; i < CONNECTIONS; i++) {
        receive(&connections[i]);
        reply(&connections[i], exchange->head);
    }
    return (now_ns() - began_ns) / CONNECTIONS;
}

static SSL_CTX *anonymous_tls(void)
{
    SSL_CTX *tls = SSL_CTX_new(TLS_method());
    must(tls && SSL_CTX_set_max_proto_version(tls, TLS1_2_VERSION) == 1 &&
             SSL_CTX_set_cipher_list(tls, ANONYMOUS) == 1 && SSL_CTX_set_dh_auto(tls, 1) == 1,
         "TLS");
    return tls;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

int main(int argc, char **argv)
{
    static double times[ROUNDS_MAX];
    int rounds = argc > 1 ? atoi(argv[1]) : 2000, ready[2], served[2];
    const struct exchange *exchange = argc > 2 && !strcmp(argv[2], "opaque") ? &opaque : &http;
    SSL_CTX *tls = argc > 2 && !strcmp(argv[2], "tls") ? anonymous_tls() : NULL;
    struct connection connections[CONNECTIONS];
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
        be_client(&address, exchange, tls, ready[1], served[0]);
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = accept(listener, NULL, NULL);
        must(fd >= 0, "accept");
        connections[i] = connection_of(fd, tls, SSL_accept);
    }
    for (int i = 0; i < rounds; i++) {
        char byte;
        must(read(ready[0], &byte, 1) == 1, "read");
        times[i] = serve_round(exchange, connections);
        must(write(served[1], "x", 1) == 1, "write");
    }
    qsort(times, (size_t)rounds, sizeof(times[0]), compare);
    printf("%.0f\n", times[rounds / 10]);
    return 0;
}
