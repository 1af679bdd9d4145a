/* The attaching helper process, and its parent, which waits for the result; see user_probe.h. */
#include "sources/attach/user_probe.h"

#include "base/helper_process.h"
#include "sources/attach/uprobe_link.h"

#include <bpf/libbpf.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ATTACH_MS 20000
#define DETACH_MS 5000

struct user_probes {
    pid_t pid;
    int control;
};

/* ---- helper process ---- */

static int attach_site(struct bpf_program *program, const struct user_probe_site *site)
{
    const struct uprobe_place place = {.fd = site->fd,
                                       .file_offset = site->file_offset,
                                       .semaphore_offset = site->semaphore_offset,
                                       .pid = site->pid ? (int32_t)site->pid : -1};
    struct uprobe_link *link; /* leaked on purpose: it goes away with the process */
    return uprobe_link_new(program, &place, &link);
}

static int compare_fds(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Removes duplicates: several sites may share a file. */
static size_t sort_unique(int *fds, size_t count)
{
    size_t kept = 0;
    qsort(fds, count, sizeof(*fds), compare_fds);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || fds[i] != fds[i - 1])
            fds[kept++] = fds[i];
    return kept;
}

static _Noreturn void run_helper(int control, struct bpf_program *program, const struct user_probe_site *sites,
                                 size_t count)
{
    int kept[USER_PROBE_SITES_MAX + 2], error = 0;
    char nothing;
    for (size_t i = 0; i < count; i++)
        kept[i] = sites[i].fd;
    kept[count] = control;
    kept[count + 1] = bpf_program__fd(program);
    helper_process_keep_only(kept, sort_unique(kept, count + 2));
    helper_process_become("sonde-probes");
    for (size_t i = 0; i < count && error == 0; i++)
        error = attach_site(program, &sites[i]);
    if (send(control, &error, sizeof(error), MSG_NOSIGNAL) == sizeof(error))
        while (recv(control, &nothing, 1, 0) < 0 && errno == EINTR)
            ;
    _exit(0);
}

/* ---- parent ---- */

static bool has_ended(pid_t pid, unsigned max_ms)
{
    for (unsigned waited_ms = 0; waitpid(pid, NULL, WNOHANG) == 0; waited_ms++) {
        if (waited_ms == max_ms)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return true;
}

static int wait_for_result(int control)
{
    struct pollfd readable = {.fd = control, .events = POLLIN};
    int error, r;
    do
        r = poll(&readable, 1, ATTACH_MS);
    while (r < 0 && errno == EINTR);
    if (r <= 0)
        return -ETIMEDOUT;
    return recv(control, &error, sizeof(error), MSG_DONTWAIT) == sizeof(error) ? error : -ECHILD;
}

int user_probes_attach(struct bpf_program *program, const struct user_probe_site *sites, size_t count,
                       struct user_probes **ret)
{
    if (count == 0 || count > USER_PROBE_SITES_MAX)
        return -EINVAL;
    _cleanup_(user_probes_freep) struct user_probes *u = calloc(1, sizeof(*u));
    if (!u)
        return -ENOMEM;
    u->control = -1;
    int r = helper_process_fork(&u->pid, &u->control);
    if (r < 0)
        return r;
    if (u->pid == 0)
        run_helper(u->control, program, sites, count);
    r = wait_for_result(u->control);
    if (r < 0)
        return r;
    *ret = take_ptr(u);
    return 0;
}

bool user_probes_are_on(struct user_probes *u)
{
    if (u->pid <= 0 || waitpid(u->pid, NULL, WNOHANG) == 0)
        return u->pid > 0;
    u->pid = 0;
    return false;
}

void user_probes_free(struct user_probes *u)
{
    if (!u)
        return;
    if (u->control >= 0)
        close(u->control);
    if (u->pid > 0 && !has_ended(u->pid, DETACH_MS))
        kill(u->pid, SIGKILL); /* if the kernel blocks its exit, init reaps it */
    free(u);
}
