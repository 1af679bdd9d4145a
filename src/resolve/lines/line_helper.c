/* The process that reads DWARF; see line_helper.h. */
#include "resolve/lines/line_helper.h"

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/helper_process.h"
#include "base/sandbox.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define DATA_BYTES   ((uint64_t)768 << 20) /* the largest programs have some hundreds of MiB of DWARF, decompressed */
#define END_MAX_NS   5000000000ull
#define CHECK_MAX_NS 10000000000ull

static bool send_message(void *context, const void *data, size_t size)
{
    const int *socket = context;
    ssize_t n;
    do
        n = send(*socket, data, size, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)size;
}

static void send_end(int socket, enum line_answer_status status)
{
    _cleanup_buf_ struct buf message = {0};
    line_answer_end(&message, status);
    if (buf_error(&message) == 0)
        send_message(&socket, message.data, message.size);
}

void line_helper_run(const struct dwarf_request *request, int socket, int parent_pid, unsigned cpu_seconds,
                     uint64_t data_bytes)
{
    const struct sandbox_limits limits = {.data_bytes = data_bytes, .cpu_seconds = cpu_seconds};
    int kept[] = {socket, request->fd, request->alt_fd};
    struct dwarf_library library;
    helper_process_keep_only(kept, request->alt_fd >= 0 ? 3 : 2);
    helper_process_become("sonde-lines");
    if (dwarf_library_load(&library) < 0) {
        send_end(socket, LINE_STATUS_NO_LIBRARY);
        _exit(0);
    }
    int listener = -1;
    if (sandbox_enter(&limits, parent_pid, &listener) < 0)
        _exit(1);
    const struct descriptors with = {.fds = {listener, -1}};
    if (descriptors_send(socket, "", 1, &with, 0) < 0)
        _exit(1);
    closep(&listener);
    send_end(socket, dwarf_lines_find(&library, request, send_message, &socket));
    _exit(0);
}

/* Waits for the process's end, within a limit: a process blocked in a dead file system cannot be ended. */
static int wait_for_end(pid_t pid, uint64_t max_ns, int *ret_status)
{
    const uint64_t start_ns = clock_monotonic_ns();
    for (;;) {
        const pid_t ended = waitpid(pid, ret_status, WNOHANG);
        if (ended == pid)
            return 0;
        if (ended < 0 && errno != EINTR)
            return -errno;
        if (clock_monotonic_ns() - start_ns > max_ns)
            return -ETIMEDOUT;
        poll(NULL, 0, 1);
    }
}

int line_helper_check(void)
{
    const pid_t pid = fork();
    if (pid == 0) {
        struct dwarf_library library;
        helper_process_keep_only(NULL, 0);
        _exit(dwarf_library_load(&library) < 0);
    }
    int status;
    int r = pid < 0 ? -errno : wait_for_end(pid, CHECK_MAX_NS, &status);
    if (r == -ETIMEDOUT)
        kill(pid, SIGKILL);
    if (r < 0)
        return r;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ENOPKG;
}

int line_helper_start(const struct dwarf_request *request, unsigned cpu_seconds, struct line_helper *ret)
{
    const int parent_pid = getpid();
    pid_t pid;
    int socket;
    const int r = helper_process_fork(&pid, &socket);
    if (r < 0)
        return r;
    if (pid == 0)
        line_helper_run(request, socket, parent_pid, cpu_seconds, DATA_BYTES);
    *ret = (struct line_helper){.pid = pid, .socket = socket, .listener = -1};
    return 0;
}

int line_helper_end(struct line_helper *h, int *ret_status)
{
    closep(&h->listener); /* first: the process may be waiting for a file to be opened */
    closep(&h->socket);
    kill(h->pid, SIGKILL); /* has no effect if it has already ended; the status is kept */
    return wait_for_end(h->pid, END_MAX_NS, ret_status);
}
