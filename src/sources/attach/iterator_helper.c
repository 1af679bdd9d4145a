/* See iterator_helper.h. */
#include "sources/attach/iterator_helper.h"

#include "base/helper_process.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EMPTYING_NS 2000000 /* pause when the ring is half full, for its reader to catch up */

/* Body of the helper: reads the iterator to its end. SIGALRM terminates it after ITERATOR_HELPER_MAX_S. */
static _Noreturn void run_walk(int fd, const char *name)
{
    const struct timespec emptying = {.tv_nsec = EMPTYING_NS};
    char nothing[64];
    ssize_t size;
    helper_process_keep_only(&fd, 1);
    helper_process_become(name);
    alarm(ITERATOR_HELPER_MAX_S);
    while ((size = read(fd, nothing, sizeof(nothing))) > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR)))
        if (size < 0)
            nanosleep(&emptying, NULL);
    _exit(0);
}

int iterator_helper_start(struct iterator_helper *h, int link_fd, const char *name)
{
    if (!iterator_helper_has_ended(h))
        return -EBUSY;
    const int fd = bpf_iter_create(link_fd);
    if (fd < 0)
        return -errno;
    const pid_t pid = fork();
    if (pid == 0)
        run_walk(fd, name);
    const int r = pid < 0 ? -errno : 0;
    close(fd);
    h->pid = r == 0 ? pid : 0;
    return r;
}

bool iterator_helper_has_ended(struct iterator_helper *h)
{
    if (h->pid && waitpid(h->pid, NULL, WNOHANG) != 0)
        h->pid = 0;
    return h->pid == 0;
}

static void wait_for_end(const struct iterator_helper *h, int patience_ms)
{
    struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, h->pid, 0), .events = POLLIN};
    if (ended.fd < 0)
        return;
    (void)poll(&ended, 1, patience_ms);
    close(ended.fd);
}

void iterator_helper_end(struct iterator_helper *h, int patience_ms)
{
    if (iterator_helper_has_ended(h))
        return;
    wait_for_end(h, patience_ms);
    if (iterator_helper_has_ended(h))
        return;
    kill(h->pid, SIGKILL);
    wait_for_end(h, 10);
    (void)iterator_helper_has_ended(h);
}
