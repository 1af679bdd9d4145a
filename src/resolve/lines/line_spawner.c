/* The process that forks readers of DWARF; see line_spawner.h.
 *
 * A request to it is the socket of a reader. The reader takes the addresses and the files from that socket itself, so
 * that the spawner has nothing to parse. It answers with the reader's CPU time. */
#include "resolve/lines/line_spawner.h"

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/helper_process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define CPU_SECONDS 5
#define END_MAX_NS  15000000000ull        /* of a reader; a blocked one uses no CPU time */
#define DATA_BYTES  ((uint64_t)128 << 20) /* compressed DWARF is decompressed into memory */
#define NICE        10

struct line_spawner {
    pid_t pid;
    int control;
};

struct request_message {
    uint32_t count, inlines;
    uint64_t addresses[LINE_SPAWNER_ADDRESSES_MAX];
};

/* ---- in the reader ---- */

_Noreturn static void reader_main(int socket, int spawner_pid)
{
    struct request_message message;
    struct descriptors with;
    const ssize_t n = descriptors_receive(socket, &message, sizeof(message), &with, 0);
    if (n < (ssize_t)offsetof(struct request_message, addresses) || message.count > LINE_SPAWNER_ADDRESSES_MAX ||
        n < (ssize_t)(offsetof(struct request_message, addresses) + message.count * sizeof(message.addresses[0])) ||
        with.fds[0] < 0)
        _exit(1);
    const struct dwarf_request request = {.fd = with.fds[0],
                                          .alt_fd = with.fds[1],
                                          .addresses = message.addresses,
                                          .count = message.count,
                                          .inlines = message.inlines};
    line_helper_run(&request, socket, spawner_pid, CPU_SECONDS, DATA_BYTES);
}

/* ---- in the spawner ---- */

/* Returns its CPU time. */
static uint64_t wait_for_reader(pid_t pid)
{
    const uint64_t until_ns = clock_monotonic_ns() + END_MAX_NS;
    struct rusage usage;
    int status;
    for (;;) {
        const pid_t ended = wait4(pid, &status, WNOHANG, &usage);
        if (ended == pid)
            return ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * 1000000000 +
                   ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * 1000;
        if (ended < 0 && errno != EINTR)
            return 0;
        if (clock_monotonic_ns() > until_ns) { /* it cannot be waited for: it may block in the kernel */
            kill(pid, SIGKILL);
            return 0;
        }
        poll(NULL, 0, 5);
    }
}

_Noreturn static void spawner_main(int control)
{
    const pid_t own = getpid();
    struct descriptors with;
    char byte;
    helper_process_keep_only(&control, 1);
    helper_process_become("sonde-lines");
    (void)setpriority(PRIO_PROCESS, 0, NICE);
    while (descriptors_receive(control, &byte, sizeof(byte), &with, 0) > 0) {
        while (waitpid(-1, NULL, WNOHANG) > 0) /* readers that ended late */
            ;
        const pid_t pid = with.fds[0] >= 0 ? fork() : -1;
        if (pid == 0) {
            close(control);
            reader_main(with.fds[0], own);
        }
        descriptors_close(&with);
        const uint64_t cpu_ns = pid > 0 ? wait_for_reader(pid) : 0;
        if (send(control, &cpu_ns, sizeof(cpu_ns), MSG_NOSIGNAL) != sizeof(cpu_ns))
            break;
    }
    _exit(0);
}

/* ---- in the agent ---- */

int line_spawner_new(struct line_spawner **ret)
{
    _cleanup_free_ struct line_spawner *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    const int r = helper_process_fork(&s->pid, &s->control);
    if (r < 0)
        return r;
    if (s->pid == 0)
        spawner_main(s->control);
    *ret = take_ptr(s);
    return 0;
}

void line_spawner_kill(struct line_spawner *s)
{
    kill(s->pid, SIGKILL); /* the reader ends with its parent */
}

void line_spawner_free(struct line_spawner *s)
{
    if (!s)
        return;
    line_spawner_kill(s);
    close(s->control);
    while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    free(s);
}

int line_spawner_start(struct line_spawner *s, const struct dwarf_request *request, struct line_helper *ret)
{
    struct request_message message = {.count = (uint32_t)request->count, .inlines = request->inlines};
    int pair[2];
    if (request->count > LINE_SPAWNER_ADDRESSES_MAX)
        return -E2BIG;
    memcpy(message.addresses, request->addresses, request->count * sizeof(message.addresses[0]));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    const struct descriptors files = {.fds = {request->fd, request->alt_fd}}, socket = {.fds = {pair[1], -1}};
    const size_t size = offsetof(struct request_message, addresses) + request->count * sizeof(message.addresses[0]);
    int r = descriptors_send(pair[0], &message, size, &files, 0);
    if (r == 0)
        r = descriptors_send(s->control, "", 1, &socket, 0);
    close(pair[1]);
    if (r < 0) {
        close(pair[0]);
        return r;
    }
    *ret = (struct line_helper){.socket = pair[0], .listener = -1};
    return 0;
}

int line_spawner_end(struct line_spawner *s, struct line_helper *helper, uint64_t *ret_cpu_ns)
{
    closep(&helper->listener); /* first: the reader may be waiting for a file to be opened */
    closep(&helper->socket);
    ssize_t n;
    do
        n = recv(s->control, ret_cpu_ns, sizeof(*ret_cpu_ns), 0);
    while (n < 0 && errno == EINTR);
    return n == sizeof(*ret_cpu_ns) ? 0 : -EPIPE;
}
