/* Servers, client and source for test_request.c; see requests.h. */
int server_main(int argc, char **argv);
#define main server_main
#include "../workloads/servers/server.c"
#undef main

#include "requests.h"
#include "threads.h"

#include "signals/request/request_metrics.h"
#include "signals/request/request_names.h"
#include "signals/request/request_paths.h"
#include "signals/signals.h"
#include "sources/attach/preemption.h"
#include "sources/recorder/recorder.h"
#include "sources/tables/flight_recorder.h"

#include <linux/sched.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define RECORDER_BYTES (8 << 20)

struct watch watch;
pid_t servers[4];
unsigned short ports[4];
static const char *const server_names[] = {"threads", "epoll", "prefork", "pool"};

/* ---- servers ---- */

static unsigned short free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    close(fd);
    return ntohs(address.sin_port);
}

/* Like fork(), with `pid` as the new process's number; 0: any. */
static pid_t fork_as(pid_t pid)
{
    struct clone_args arguments = {.exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&pid, .set_tid_size = 1};
    return pid ? (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments)) : fork();
}

static bool start_server(int server, pid_t pid, const char *command)
{
    char port[16], name[16], byte;
    int ready[2];
    ports[server] = free_port();
    snprintf(port, sizeof(port), "%u", ports[server]);
    snprintf(name, sizeof(name), "%s", server_names[server]);
    assert_int_equal(pipe(ready), 0);
    pid = fork_as(pid);
    if (pid < 0) {
        close(ready[0]);
        close(ready[1]);
        return false;
    }
    if (pid > 0)
        servers[server] = pid;
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_NAME, command);
        dup2(ready[1], 1);
        syscall(SYS_close_range, 3, ~0u,
                0); /* executables replaced by the tests must not stay attached through this process */
        _exit(server_main(4, (char *[]){(char *)"server", name, port, (char *)"/var/tmp", NULL}));
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return true;
}

bool replace_server(int server, const char *command)
{
    kill(servers[server], SIGKILL);
    assert_int_equal(waitpid(servers[server], NULL, 0), servers[server]);
    return start_server(server, servers[server], command);
}

int start_servers(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        start_server(i, 0, server_names[i]);
    return 0;
}

static void close_sources(void)
{
    if (watch.self)
        source_request.free(watch.self);
    if (watch.recorder)
        source_recorder.free(watch.recorder);
    request_metrics_free(watch.metrics);
    shared_tables_free(watch.tables);
    watch.self = watch.recorder = NULL;
    watch.metrics = NULL;
    watch.tables = NULL;
    watch.why_not[0] = 0;
}

int stop_servers(void **state)
{
    (void)state;
    close_sources();
    for (int i = 0; i < 4; i++) {
        kill(-servers[i], SIGKILL);
        kill(servers[i], SIGKILL);
        waitpid(servers[i], NULL, 0);
    }
    return 0;
}

/* ---- a client ---- */

int connect_to(int server)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(ports[server]), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Reads until `text` was seen `count` times ("ok\n" or the last chunk ends a reply of /ok), or to the end. */
void expect_text(int fd, const char *text, int count)
{
    char data[4096];
    size_t size = 0;
    while (count > 0) {
        ssize_t n = recv(fd, data + size, 1, 0);
        assert_int_equal(n, 1);
        data[++size] = 0;
        if (size >= strlen(text) && strcmp(data + size - strlen(text), text) == 0)
            count--;
        assert_true(size < sizeof(data) - 1);
    }
}

void await_full(int server, int fd)
{
    for (int there = 0; there < 65536; assert_int_equal(ioctl(fd, FIONREAD, &there), 0))
        poll(NULL, 0, 1);
    threads_await_all_blocked(servers[server]);
}

void send_request(int server, const char *method, const char *target)
{
    char text[512], sink[512];
    int fd = connect_to(server),
        n = snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", method, target);
    assert_int_equal(write(fd, text, (size_t)n), n);
    while (recv(fd, sink, sizeof(sink), 0) > 0)
        ;
    close(fd);
}

/* ---- recording ---- */

static void keep_request(struct request *request)
{
    for (size_t i = 0; i < watch.count; i++)
        if (watch.requests[i]->id == request->id) {
            request_free(watch.requests[i]);
            watch.requests[i] = request;
            return;
        }
    assert_true(watch.count < KEPT_MAX);
    watch.requests[watch.count++] = request;
}

static void keep(const struct request_record *record)
{
    struct request_namer namer = {.recorder = shared_tables_recorder(watch.tables), .source = watch.self};
    const struct request_names names = request_names_by(&namer);
    _cleanup_(request_paths_freep) struct request_paths *paths = NULL; /* each may cost as much as it does */
    struct request_path path = {.record = record};
    struct request *request;
    assert_int_equal(request_paths_new(shared_tables_recorder(watch.tables), 0, &paths), 0);
    request_paths_find(paths, &path, 1);
    int r = diagnose_request(record, &path.segments, path.no_path, &names, &request);
    if (r == -EBADMSG)
        watch.bad++;
    else
        keep_request(request);
    path_segments_clear(&path.segments);
}

void check(void)
{
    batch_clear(watch.batch);
    assert_int_equal(source_request.drain(watch.self, watch.batch), 0);
    request_metrics_sweep(watch.metrics, clock_monotonic_ns());
    for (size_t i = 0; i < batch_count(watch.batch); i++) {
        const struct request_record *record = (const struct request_record *)batch_get(watch.batch, i);
        assert_int_equal(record->h.kind, RECORD_REQUEST);
        if (record->start_ns >= watch.began_ns)
            keep(record);
    }
}

uint64_t total(const struct request *r, enum request_part_kind kind)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < r->part_count; i++)
        if (r->parts[i].kind == kind)
            sum += r->parts[i].duration_ns;
    return sum;
}

const struct request_part *find_part(const struct request *r, enum request_part_kind kind, const char *detail)
{
    for (size_t i = 0; i < r->part_count; i++)
        if (r->parts[i].kind == kind && strstr(r->parts[i].detail, detail))
            return &r->parts[i];
    return NULL;
}

static void assert_sums(const struct request *r)
{
    uint64_t sum = 0;
    for (int kind = 0; kind < REQUEST_PART_COUNT; kind++)
        sum += total(r, kind);
    assert_int_equal(sum, r->duration_ns);
}

size_t seen(pid_t pid, const char *route)
{
    size_t n = 0;
    for (size_t i = 0; i < watch.count; i++)
        n += (!pid || watch.requests[i]->pid == (uint32_t)pid) && strcmp(watch.requests[i]->route, route) == 0;
    return n;
}

/* Waits for `count` requests of that route and returns the last. */
const struct request *await_requests(pid_t pid, const char *route, size_t count)
{
    uint64_t end = clock_monotonic_ns() + PATIENCE_NS;
    for (;;) {
        check();
        if (seen(pid, route) >= count)
            break;
        if (clock_monotonic_ns() > end)
            fail_msg("%zu of %zu requests for %s were recorded", seen(pid, route), count, route);
        poll(NULL, 0, 10);
    }
    assert_int_equal(seen(pid, route), count);
    for (size_t i = watch.count; i-- > 0;)
        if ((!pid || watch.requests[i]->pid == (uint32_t)pid) && strcmp(watch.requests[i]->route, route) == 0) {
            assert_sums(watch.requests[i]);
            return watch.requests[i];
        }
    return NULL;
}

/* Loads the programs once per method: verifying takes long on an emulated machine. Requests left over from the
 * previous case started before this one. */
int watch_begin(void **state)
{
    static int open_method = -2;
    struct task_filter filter = {.pid_count = 4}; /* exclusive to this test */
    struct attach_report report = {0};
    for (int i = 0; i < 4; i++)
        filter.pids[i] = (uint32_t)servers[i];
    const int method = (int)(long)*state;
    if (method != open_method) {
        close_sources();
        open_method = method;
        const struct shared_tables_options tables = {.filter = &filter, .recorder_bytes = RECORDER_BYTES};
        assert_int_equal(shared_tables_new(&tables, &watch.tables), 0);
        const struct source_services services = {.tables = watch.tables, .filter = &filter, .ring_bytes = 256 * 1024};
        if (request_source_open_on(&services, &report, method, false, &watch.self) < 0)
            snprintf(watch.why_not, sizeof(watch.why_not), "%s", report.entries[0].fallback_reason);
        else
            assert_int_equal(request_metrics_new(watch.self, NULL, &watch.metrics), 0);
        snprintf(watch.limitation, sizeof(watch.limitation), "%s", report.entries[0].limitation);
        if (source_recorder.open(&services, NULL, &report, &watch.recorder) < 0)
            fail_msg("%s", report.entries[report.count - 1].fallback_reason);
        assert_int_equal(source_recorder.start(watch.recorder), 0);
    }
    if (!watch.self)
        return 0;
    watch.count = watch.bad = 0;
    watch.began_ns = clock_monotonic_ns();
    watch.before = (struct losses){0};
    source_request.losses(watch.self, &watch.before);
    return batch_new(4 << 20, signals_check_record, &watch.batch) < 0 ? -1 : 0;
}

int watch_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < watch.count; i++)
        request_free(watch.requests[i]);
    watch.count = 0;
    batch_free(watch.batch);
    watch.batch = NULL;
    return 0;
}

uint64_t lost(enum loss_reason reason)
{
    struct losses losses = {0};
    source_request.losses(watch.self, &losses);
    return losses.count[reason] - watch.before.count[reason];
}

uint64_t counted(const char *service)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    uint64_t sum = 0;
    assert_int_equal(metric_set_new(&set), 0);
    request_metrics_write(watch.metrics, clock_monotonic_ns(), set);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        struct metric_family family = metric_set_family(set, i);
        for (size_t p = 0; strcmp(family.name, "http_server_request_duration_seconds") == 0 && p < family.point_count;
             p++)
            for (size_t b = 0;
                 strcmp(family.points[p].labels[0].value, service) == 0 && b <= family.points[p].bound_count; b++)
                sum += family.points[p].counts[b];
    }
    return sum;
}

void await_counted(const char *service, uint64_t count)
{
    uint64_t end = clock_monotonic_ns() + PATIENCE_NS;
    while (counted(service) < count && clock_monotonic_ns() < end)
        poll(NULL, 0, 10);
    if (counted(service) != count)
        fail_msg("%llu requests of %s are counted, not %llu", (unsigned long long)counted(service), service,
                 (unsigned long long)count);
}

/* EACCES and E2BIG are verifier errors, so the program is wrong. EPERM, EINVAL and ESRCH mean that the kernel does not
 * provide the method. */
static void skip_method(const char *why_not)
{
    if (strstr(why_not, "Permission denied") || strstr(why_not, "Argument list too long"))
        fail_msg("rejected by the verifier: %s", why_not);
    printf("not available on this kernel: %s\n", why_not);
    skip();
}

void need_method(void)
{
    if (!watch.self)
        skip_method(watch.why_not);
}

void need_arrivals(void)
{
    if (strstr(watch.limitation, "begin when they are read"))
        skip_method(watch.limitation);
}

/* A kernel that preempts programs skips them for other threads of that CPU meanwhile, and counts that: it says nothing
 * about what a test has done. */
static bool is_loss_of_the_kernel(int loss)
{
    return loss == LOSS_MISSED && preemption_is_possible();
}

void assert_nothing_lost(void)
{
    for (int i = 0; i < LOSS_COUNT; i++)
        if (lost(i) && i != LOSS_REQUEST_NOT_DETAILED && !is_loss_of_the_kernel(i))
            fail_msg("%llu lost: %s", (unsigned long long)lost(i), loss_name(i));
    assert_int_equal(watch.bad, 0);
}
