/* What a dropped packet takes, in nanoseconds: the least of many rounds, as what else runs on the machine only adds.
 * Meanwhile TCP sends segments of other connections again. Prints "packet NS" and "retransmissions COUNT". For
 * bench/losses.py, which runs it with and without an observer. */
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#define ROUNDS       500
#define PACKETS      1000
#define CONNECTIONS  400
#define HEADER_BYTES 60 /* the most that TCP has: a handshake has no data */

static char data[1024];

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void check(bool is_ok, const char *what)
{
    if (is_ok)
        return;
    perror(what);
    exit(1);
}

static int bound_socket(int type, struct sockaddr_in *ret_address)
{
    const int fd = socket(AF_INET, type, 0);
    socklen_t size = sizeof(*ret_address);
    *ret_address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    check(fd >= 0 && bind(fd, (struct sockaddr *)ret_address, size) == 0, "bind");
    check(getsockname(fd, (struct sockaddr *)ret_address, &size) == 0, "getsockname");
    return fd;
}

static int connected_socket(int type, const struct sockaddr_in *to)
{
    const int fd = socket(AF_INET, type, 0);
    check(fd >= 0 && connect(fd, (const struct sockaddr *)to, sizeof(*to)) == 0, "connect");
    return fd;
}

/* Each connection's segment is lost, before a socket that drops all data. */
static void lose_segments(int *clients)
{
    struct sock_filter drops_data[] = {{BPF_LD | BPF_W | BPF_LEN, 0, 0, 0},
                                       {BPF_JMP | BPF_JGT | BPF_K, 0, 1, HEADER_BYTES},
                                       {BPF_RET | BPF_K, 0, 0, 0},
                                       {BPF_RET | BPF_K, 0, 0, ~0u}};
    const struct sock_fprog filter = {sizeof(drops_data) / sizeof(drops_data[0]), drops_data};
    struct sockaddr_in address;
    const int server = bound_socket(SOCK_STREAM, &address);
    check(setsockopt(server, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) == 0, "SO_ATTACH_FILTER");
    check(listen(server, 16) == 0, "listen");
    for (int i = 0; i < CONNECTIONS; i++) {
        clients[i] = connected_socket(SOCK_STREAM, &address);
        check(accept(server, NULL, NULL) >= 0, "accept");
        check(send(clients[i], data, 100, 0) == 100, "send");
    }
}

static double least_ns_of_packet(void)
{
    struct sockaddr_in address;
    const int receiver = bound_socket(SOCK_DGRAM, &address), sender = connected_socket(SOCK_DGRAM, &address);
    double least = 1e18;
    check(setsockopt(receiver, SOL_SOCKET, SO_RCVBUF, &(int){1}, sizeof(int)) == 0, "SO_RCVBUF"); /* soon full */
    for (int round = 0; round < ROUNDS; round++) {
        const double start = now_ns();
        for (int i = 0; i < PACKETS; i++)
            check(send(sender, data, 64, 0) == 64, "send");
        const double each = (now_ns() - start) / PACKETS;
        least = each < least ? each : least;
    }
    return least;
}

int main(void)
{
    int clients[CONNECTIONS];
    unsigned retransmissions = 0;
    lose_segments(clients);
    printf("packet %.1f\n", least_ns_of_packet());
    for (int i = 0; i < CONNECTIONS; i++) {
        struct tcp_info info = {0};
        socklen_t size = sizeof(info);
        check(getsockopt(clients[i], IPPROTO_TCP, TCP_INFO, &info, &size) == 0, "TCP_INFO");
        retransmissions += info.tcpi_total_retrans;
    }
    printf("retransmissions %u\n", retransmissions);
    return 0;
}
