/* Loads the walk and has a process make it; see asleep.h. */
#include "sources/offcpu/asleep.h"

#include "sources/attach/map_sizes.h"
#include "sources/sampling/cpu_filters.h"

#include "base/helper_process.h"

#include "asleep.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EMPTYING_NS 2000000 /* how long the reader of a ring that is half full is given */

struct asleep {
    struct asleep_bpf *bpf;
    struct bpf_link *link;
    pid_t pid; /* 0: nobody walks */
};

static int load(struct asleep *a, int records_fd, size_t ring_bytes, int threads_fd)
{
    a->bpf = asleep_bpf__open();
    if (!a->bpf)
        return -errno;
    struct asleep_bpf *k = a->bpf;
    k->rodata->cgroup_hierarchy = (int)cpu_filters_cgroups();
    k->rodata->ring_bytes = ring_bytes;
    struct bpf_map *const unused[] = {k->maps.unwind_processes, k->maps.unwind_chunks, k->maps.unwind_objects, k->maps.unwind_cache};
    for (size_t i = 0; i < array_size(unused); i++) /* the walk is made in user space */
        (void)bpf_map__set_autocreate(unused[i], false);
    int r = bpf_map__reuse_fd(k->maps.records, records_fd);
    if (r == 0)
        r = bpf_map__reuse_fd(k->maps.threads, threads_fd);
    if (r == 0)
        r = asleep_bpf__load(k);
    if (r < 0)
        return r;
    a->link = bpf_program__attach_iter(k->progs.asleep_stack, NULL);
    return a->link ? 0 : -errno;
}

int asleep_new(int records_fd, size_t ring_bytes, int threads_fd, struct attach_report *report, struct asleep **ret_asleep)
{
    static const char rung[] = "iterator that may sleep";
    struct attach_entry *entry = attach_report_add(report, "stacks of earlier waits");
    _cleanup_(asleep_freep) struct asleep *a = calloc(1, sizeof(*a));
    if (!a)
        return -ENOMEM;
    int r = load(a, records_fd, ring_bytes, threads_fd);
    entry->attached = true;
    if (r < 0) {
        attach_entry_refused(entry, rung, r);
        snprintf(entry->rung, sizeof(entry->rung), "kernel stacks alone");
        snprintf(entry->truth, sizeof(entry->truth), "a thread that waited before the recording began, as one that hangs, shows no functions of its own (Linux 5.18 and later)");
        *ret_asleep = NULL;
        return 0;
    }
    snprintf(entry->rung, sizeof(entry->rung), "%s", rung);
    *ret_asleep = take_ptr(a);
    return 0;
}

/* False while it goes on, and after a kill that does not end it yet: what it reads answers first. */
static bool has_ended(struct asleep *a)
{
    if (a->pid && waitpid(a->pid, NULL, WNOHANG) != 0)
        a->pid = 0;
    return a->pid == 0;
}

/* The walk, by read(2): it ends where the timer is told of, whatever it waits for. */
static _Noreturn void walk(int fd)
{
    const struct timespec emptying = {.tv_nsec = EMPTYING_NS};
    char nothing[64];
    sigset_t none;
    ssize_t size;
    helper_process_keep_only(&fd, 1);
    helper_process_become("sonde-asleep");
    signal(SIGALRM, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    alarm(ASLEEP_MAX_S);
    while ((size = read(fd, nothing, sizeof(nothing))) > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR)))
        if (size < 0)
            nanosleep(&emptying, NULL);
    _exit(0);
}

int asleep_start(struct asleep *a)
{
    if (!a || !has_ended(a)) /* there is one walk at a time, and it may hang */
        return 0;
    const int fd = bpf_iter_create(bpf_link__fd(a->link));
    if (fd < 0)
        return -errno;
    a->bpf->bss->is_last = 0;
    const pid_t pid = fork();
    if (pid == 0)
        walk(fd);
    const int r = pid < 0 ? -errno : 0;
    close(fd);
    a->pid = r == 0 ? pid : 0;
    return r;
}

static void wait_for_end(const struct asleep *a, int patience_ms)
{
    struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, a->pid, 0), .events = POLLIN};
    if (ended.fd < 0)
        return;
    (void)poll(&ended, 1, patience_ms);
    close(ended.fd);
}

void asleep_end(struct asleep *a, int patience_ms)
{
    if (!a || has_ended(a))
        return;
    a->bpf->bss->is_last = 1;
    wait_for_end(a, patience_ms);
    if (has_ended(a))
        return;
    kill(a->pid, SIGKILL);
    wait_for_end(a, 10);
    (void)has_ended(a);
}

void asleep_free(struct asleep *a)
{
    if (!a)
        return;
    asleep_end(a, 0);
    bpf_link__destroy(a->link);
    asleep_bpf__destroy(a->bpf);
    free(a);
}

struct asleep_stats asleep_read_stats(const struct asleep *a)
{
    return a ? a->bpf->bss->stats : (struct asleep_stats){0};
}

size_t asleep_memory_bytes(const struct asleep *a, int cpu_count)
{
    return a ? map_sizes_bytes(a->bpf->maps.unwind_scratch, cpu_count) : 0;
}
