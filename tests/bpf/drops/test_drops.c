/* Losses of the network against the kernel's own counters of each socket: they must be equal. Packets are dropped by
 * filters and full buffers of sockets of loopback, so that no firewall is needed. */
#include "../cgroups.h"
#include "../watch.h"

#include "sources/drops/drops.h"

#include "probes/drops.h"

#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_NS 20000000000ull

static const struct drops_options limits = {.enabled = true, .packets = 20, .retransmissions = 1};
static struct watch w;

/* The source's clock runs ahead, so that it checks its limits at once (-Wl,--wrap). */
uint64_t __real_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void);
static uint64_t ahead_ns;

uint64_t __wrap_clock_monotonic_ns(void)
{
    return __real_clock_monotonic_ns() + ahead_ns;
}

static int begin(void **state)
{
    struct watch_options options = watch_defaults;
    (void)state;
    options.settings = &limits;
    w = watch_begin(&source_drops, &options);
    return 0;
}

static int end(void **state)
{
    (void)state;
    watch_end(&w);
    return 0;
}

/* ---- counters ---- */

/* The sum of the points of a family that have all `count` labels. */
static double counted(const char *family, const char *const (*labels)[2], size_t count)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    double sum = 0;
    assert_int_equal(metric_set_new(&set), 0);
    w.source->metrics(w.self, set);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family f = metric_set_family(set, i);
        for (size_t p = 0; strcmp(f.name, family) == 0 && p < f.point_count; p++) {
            size_t matching = 0;
            for (size_t l = 0; l < f.points[p].label_count; l++)
                for (size_t k = 0; k < count; k++)
                    matching += strcmp(f.points[p].labels[l].name, labels[k][0]) == 0 &&
                                strcmp(f.points[p].labels[l].value, labels[k][1]) == 0;
            sum += matching == count ? f.points[p].value : 0;
        }
    }
    return sum;
}

#define COUNTED(family, ...)                                                                                           \
    counted(family, (const char *const[][2]){__VA_ARGS__}, array_size(((const char *const[][2]){__VA_ARGS__})))

static bool has_reason(const char *reason)
{
    if (COUNTED("sonde_drops_packets", {"reason", reason}) > 0 ||
        COUNTED("sonde_drops_expected_packets", {"reason", reason}) > 0)
        return true;
    print_message("skipped: this kernel does not drop with %s\n", reason);
    return false;
}

static uint32_t drops_of(int fd)
{
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t size = sizeof(memory);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &size), 0);
    return memory[SK_MEMINFO_DROPS];
}

static uint32_t retransmissions_of(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
    return info.tcpi_total_retrans;
}

/* ---- sockets ---- */

static struct sockaddr_in address_of(int fd)
{
    struct sockaddr_in address;
    socklen_t size = sizeof(address);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    return address;
}

static int bound_socket(int type)
{
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&any, sizeof(any)), 0);
    return fd;
}

static int connecting_socket(const struct sockaddr_in *to, int flags)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    assert_true(fd >= 0);
    (void)connect(fd, (const struct sockaddr *)to, sizeof(*to));
    return fd;
}

/* A connection whose client side is ends[0]. */
static void connect_pair(int ends[2])
{
    const int listener = bound_socket(SOCK_STREAM), on = 1;
    const struct sockaddr_in address = address_of(listener);
    assert_int_equal(listen(listener, 1), 0);
    ends[0] = connecting_socket(&address, 0);
    ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(ends[1] >= 0);
    assert_int_equal(setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
    close(listener);
}

static void drop_all(int fd)
{
    struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog drop = {1, &nothing};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &drop, sizeof(drop)), 0);
}

static void drop_none(int fd)
{
    const int unused = 0;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused)), 0);
}

/* Sends `count` datagrams to a socket that reads none. Returns how many it dropped. */
static uint32_t send_datagrams(unsigned count, bool are_filtered)
{
    static char data[1024];
    const int receiver = bound_socket(SOCK_DGRAM), sender = bound_socket(SOCK_DGRAM), least = 1;
    const struct sockaddr_in to = address_of(receiver);
    assert_int_equal(setsockopt(receiver, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least)), 0);
    if (are_filtered)
        drop_all(receiver);
    for (unsigned i = 0; i < count; i++)
        (void)sendto(sender, data, sizeof(data), 0, (const struct sockaddr *)&to, sizeof(to));
    const uint32_t drops = drops_of(receiver);
    close(receiver);
    close(sender);
    return drops;
}

/* ---- cases ---- */

static void test_full_buffer_is_a_fault(void **state)
{
    (void)state;
    const double before = COUNTED("sonde_drops_packets", {"reason", "SOCKET_RCVBUFF"}, {"class", "fault"});
    const uint32_t drops = send_datagrams(100, false);
    assert_true(drops > 50);
    if (!has_reason("SOCKET_RCVBUFF"))
        skip();
    assert_true(COUNTED("sonde_drops_packets", {"reason", "SOCKET_RCVBUFF"}, {"class", "fault"}) == before + drops);
}

static void test_filter_of_a_program_is_no_fault(void **state)
{
    (void)state;
    const double before = COUNTED("sonde_drops_expected_packets", {"reason", "SOCKET_FILTER"});
    const uint32_t drops = send_datagrams(30, true);
    assert_int_equal(drops, 30);
    if (!has_reason("SOCKET_FILTER"))
        skip();
    assert_true(COUNTED("sonde_drops_expected_packets", {"reason", "SOCKET_FILTER"}) == before + 30);
    assert_true(COUNTED("sonde_drops_packets", {"reason", "SOCKET_FILTER"}) == 0);
}

static void reset_connections(void)
{
    const struct linger at_once = {.l_onoff = 1};
    for (int i = 0; i < 5; i++) {
        int ends[2];
        connect_pair(ends);
        (void)setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        close(ends[0]);
        close(ends[1]);
    }
    (void)send_datagrams(100, false);
}

/* Makes a cgroup of version 2: the kernel assigns sockets to it. */
static bool make_cgroup_v2(const char *name, char *path, size_t size)
{
    static const char *const roots[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
    for (size_t i = 0; i < array_size(roots); i++) {
        char controllers[160];
        snprintf(path, size, "%s%s", roots[i], name);
        snprintf(controllers, sizeof(controllers), "%s/cgroup.controllers", path); /* version 1 has no such file */
        if (!cgroup_make(path))
            continue;
        if (access(controllers, F_OK) == 0)
            return true;
        rmdir(path);
    }
    return false;
}

static void test_losses_have_the_cgroup_of_their_socket(void **state)
{
    char path[128], name[64];
    (void)state;
    snprintf(name, sizeof(name), "/sonde-drops-%d", getpid());
    if (!make_cgroup_v2(name, path, sizeof(path))) {
        print_message("skipped: no cgroup v2 here\n");
        skip();
    }
    cgroup_run(path, reset_connections);
    assert_true(COUNTED("sonde_drops_resets", {"cgroup", name}, {"direction", "sent"}) == 5);
    assert_true(COUNTED("sonde_drops_resets", {"cgroup", name}, {"direction", "received"}) == 5);
    if (has_reason("SOCKET_RCVBUFF"))
        assert_true(COUNTED("sonde_drops_packets", {"cgroup", name}, {"reason", "SOCKET_RCVBUFF"}) > 50 ||
                    COUNTED("sonde_drops_packets", {"cgroup", "none"}, {"reason", "SOCKET_RCVBUFF"}) > 50);
    cgroup_remove(path);
}

struct seen {
    uint32_t event, port;
    struct drops_record last;
};

static bool check_record(const struct record_header *header, void *context)
{
    const struct drops_record *r = (const struct drops_record *)header;
    struct seen *s = context;
    if (header->kind != RECORD_DROPS || r->event != s->event || (s->port && r->port != s->port))
        return false;
    s->last = *r;
    return true;
}

/* The peer's address with its port is only this connection's. */
static void test_retransmissions_are_those_of_the_socket(void **state)
{
    char data[8] = "", peer[32];
    int ends[2];
    (void)state;
    connect_pair(ends);
    snprintf(peer, sizeof(peer), "127.0.0.1:%u", ntohs(address_of(ends[1]).sin_port));
    const double probes = COUNTED("sonde_drops_retransmissions", {"cause", "loss_probe"}),
                 timeouts = COUNTED("sonde_drops_retransmissions", {"cause", "timeout"});
    drop_all(ends[1]);
    assert_int_equal(send(ends[0], data, sizeof(data), 0), sizeof(data));
    for (const uint64_t until_ns = clock_monotonic_ns() + PATIENCE_NS;
         retransmissions_of(ends[0]) < 2 && clock_monotonic_ns() < until_ns;)
        usleep(20000);
    drop_none(ends[1]);
    assert_int_equal(recv(ends[1], data, sizeof(data), MSG_WAITALL), sizeof(data));
    const uint32_t again = retransmissions_of(ends[0]);
    assert_true(again >= 2);
    assert_true(COUNTED("sonde_drops_peer_retransmissions", {"peer", peer}) == again);
    const double more_timeouts = COUNTED("sonde_drops_retransmissions", {"cause", "timeout"}) - timeouts;
    assert_true(more_timeouts >= 1);
    assert_true(more_timeouts + COUNTED("sonde_drops_retransmissions", {"cause", "loss_probe"}) - probes >= again);
    close(ends[0]);
    close(ends[1]);
}

/* The segments after the lost one are acknowledged. */
static void test_lost_segment_among_others_is_fast(void **state)
{
    char data[8] = "", all[12 * sizeof(data)];
    int ends[2];
    (void)state;
    connect_pair(ends);
    const double before = COUNTED("sonde_drops_retransmissions", {"cause", "fast"});
    drop_all(ends[1]);
    assert_int_equal(send(ends[0], data, sizeof(data), 0), sizeof(data));
    drop_none(ends[1]);
    for (int i = 0; i < 11; i++)
        assert_int_equal(send(ends[0], data, sizeof(data), 0), sizeof(data));
    assert_int_equal(recv(ends[1], all, sizeof(all), MSG_WAITALL), sizeof(all));
    if (retransmissions_of(ends[0]) == 1)
        assert_true(COUNTED("sonde_drops_retransmissions", {"cause", "fast"}) >= before + 1);
    close(ends[0]);
    close(ends[1]);
}

/* A listening socket whose program accepts nothing. */
static void test_full_accept_queue_is_a_record(void **state)
{
    const int listener = bound_socket(SOCK_STREAM);
    const struct sockaddr_in address = address_of(listener);
    struct seen seen = {.event = DROPS_EVENT_LISTEN, .port = ntohs(address.sin_port)};
    char port[8];
    int clients[6];
    (void)state;
    snprintf(port, sizeof(port), "%u", seen.port);
    assert_int_equal(listen(listener, 1), 0);
    for (size_t i = 0; i < array_size(clients); i++)
        clients[i] = connecting_socket(&address, SOCK_NONBLOCK);
    for (const uint64_t until_ns = clock_monotonic_ns() + PATIENCE_NS;
         drops_of(listener) < 4 && clock_monotonic_ns() < until_ns;)
        usleep(20000);
    const uint32_t refused = drops_of(listener);
    assert_true(refused >= 4);
    ahead_ns += 2 * DROPS_INTERVAL_NS;
    watch_until(&w, 1, check_record, &seen);
    assert_in_range(seen.last.count, refused, drops_of(listener));
    assert_int_equal(seen.last.h.pid, getpid());
    assert_int_equal(seen.last.backlog, 2); /* of a backlog of n the kernel lets n + 1 wait */
    assert_int_equal(seen.last.backlog_max, 1);
    assert_true(COUNTED("sonde_drops_refused_connections", {"port", port}) == seen.last.count);
    for (size_t i = 0; i < array_size(clients); i++)
        close(clients[i]);
    close(listener);
}

static void test_many_drops_are_a_record(void **state)
{
    struct seen seen = {.event = DROPS_EVENT_PACKETS};
    (void)state;
    const uint32_t drops = send_datagrams(100, false);
    if (!has_reason("SOCKET_RCVBUFF"))
        skip();
    ahead_ns += 2 * DROPS_INTERVAL_NS;
    watch_until(&w, 1, check_record, &seen);
    assert_int_equal(seen.last.count, drops);
    assert_string_equal(seen.last.name, "SOCKET_RCVBUFF");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_full_buffer_is_a_fault, begin, end),
        cmocka_unit_test_setup_teardown(test_filter_of_a_program_is_no_fault, begin, end),
        cmocka_unit_test_setup_teardown(test_losses_have_the_cgroup_of_their_socket, begin, end),
        cmocka_unit_test_setup_teardown(test_retransmissions_are_those_of_the_socket, begin, end),
        cmocka_unit_test_setup_teardown(test_lost_segment_among_others_is_fast, begin, end),
        cmocka_unit_test_setup_teardown(test_full_accept_queue_is_a_record, begin, end),
        cmocka_unit_test_setup_teardown(test_many_drops_are_a_record, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
