/* Setup of a helper process; see helper_process.h. */
#include "base/helper_process.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

int helper_process_fork(pid_t *ret_pid, int *ret_socket)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    const pid_t pid = fork();
    const int r = pid < 0 ? -errno : 0;
    if (pid != 0)
        close(pair[1]);
    if (pid <= 0)
        close(pair[0]);
    if (pid < 0)
        return r;
    *ret_pid = pid;
    *ret_socket = pair[pid == 0];
    return 0;
}

static void close_between(unsigned first, unsigned last)
{
    if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
        return;
    const unsigned max = (unsigned)sysconf(_SC_OPEN_MAX); /* before Linux 5.9 */
    for (unsigned fd = first; fd <= last && fd < max; fd++)
        close((int)fd);
}

static int compare_fds(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

void helper_process_keep_only(int *fds, size_t count)
{
    int null_fd = open("/dev/null", O_RDWR);
    unsigned next = 3;
    for (int fd = 0; fd < 3; fd++)
        if (null_fd < 0 || dup2(null_fd, fd) < 0)
            close(fd);
    if (count) /* otherwise there may be no array */
        qsort(fds, count, sizeof(*fds), compare_fds);
    for (size_t i = 0; i < count; i++) {
        if ((unsigned)fds[i] >= next)
            close_between(next, (unsigned)fds[i] - 1);
        next = (unsigned)fds[i] + 1;
    }
    close_between(next, ~0U);
}

void helper_process_become(const char *name)
{
    /* Signals are ignored because the agent decides when to end: Ctrl-C reaches the helper as well, but the agent's
     * last turn still needs it. */
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, name);
    for (size_t i = 0; i < array_size(ignored); i++)
        signal(ignored[i], SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGALRM, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (chdir("/") < 0)
        _exit(1);
}

void helper_process_raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}
