/* Loads the task iterator and runs it in a helper process; see sleeping_tasks.h. */
#include "sources/offcpu/sleeping_tasks.h"

#include "sources/attach/map_sizes.h"
#include "sources/sampling/task_filters.h"

#include "base/helper_process.h"

#include "sleeping_tasks.skel.h"

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

#define EMPTYING_NS 2000000 /* pause when the ring is half full, for its reader to catch up */

struct sleeping_tasks {
    struct sleeping_tasks_bpf *bpf;
    struct bpf_link *link;
    pid_t pid; /* the helper process; 0: none */
};

static int load_iterator(struct sleeping_tasks *a, int records_fd, size_t ring_bytes, int threads_fd)
{
    a->bpf = sleeping_tasks_bpf__open();
    if (!a->bpf)
        return -errno;
    struct sleeping_tasks_bpf *k = a->bpf;
    k->rodata->cgroup_hierarchy = (int)task_filters_cgroups();
    k->rodata->ring_bytes = ring_bytes;
    struct bpf_map *const unused[] = {k->maps.unwind_processes, k->maps.unwind_chunks, k->maps.unwind_objects,
                                      k->maps.unwind_cache};
    for (size_t i = 0; i < array_size(unused); i++) /* frames are unwound in user space */
        (void)bpf_map__set_autocreate(unused[i], false);
    int r = bpf_map__reuse_fd(k->maps.records, records_fd);
    if (r == 0)
        r = bpf_map__reuse_fd(k->maps.threads, threads_fd);
    if (r == 0)
        r = sleeping_tasks_bpf__load(k);
    if (r < 0)
        return r;
    a->link = bpf_program__attach_iter(k->progs.sleeping_tasks_stack, NULL);
    return a->link ? 0 : -errno;
}

int sleeping_tasks_new(int records_fd, size_t ring_bytes, int threads_fd, struct attach_report *report,
                       struct sleeping_tasks **ret_sleeping_tasks)
{
    static const char method[] = "iterator that may sleep";
    struct attach_entry *entry = attach_report_add(report, "stacks of sleeping tasks");
    _cleanup_(sleeping_tasks_freep) struct sleeping_tasks *a = calloc(1, sizeof(*a));
    if (!a)
        return -ENOMEM;
    int r = load_iterator(a, records_fd, ring_bytes, threads_fd);
    entry->attached = true;
    if (r < 0) {
        attach_entry_refused(entry, method, r);
        snprintf(entry->method, sizeof(entry->method), "kernel stacks alone");
        snprintf(entry->limitation, sizeof(entry->limitation),
                 "threads already waiting when the recording begins, such as hung ones, have no user stack "
                 "(needs Linux 5.18)");
        *ret_sleeping_tasks = NULL;
        return 0;
    }
    snprintf(entry->method, sizeof(entry->method), "%s", method);
    *ret_sleeping_tasks = take_ptr(a);
    return 0;
}

/* False while the helper runs, and after a SIGKILL until its pending page fault returns. */
static bool has_ended(struct sleeping_tasks *a)
{
    if (a->pid && waitpid(a->pid, NULL, WNOHANG) != 0)
        a->pid = 0;
    return a->pid == 0;
}

/* Body of the helper: reads the iterator to its end. SIGALRM terminates it after SLEEPING_TASKS_MAX_S. */
static _Noreturn void run_walk(int fd)
{
    const struct timespec emptying = {.tv_nsec = EMPTYING_NS};
    char nothing[64];
    ssize_t size;
    helper_process_keep_only(&fd, 1);
    helper_process_become("sonde-sleeping");
    alarm(SLEEPING_TASKS_MAX_S);
    while ((size = read(fd, nothing, sizeof(nothing))) > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR)))
        if (size < 0)
            nanosleep(&emptying, NULL);
    _exit(0);
}

int sleeping_tasks_start(struct sleeping_tasks *a)
{
    if (!a || !has_ended(a)) /* one walk at a time, and it may hang */
        return 0;
    const int fd = bpf_iter_create(bpf_link__fd(a->link));
    if (fd < 0)
        return -errno;
    a->bpf->bss->is_last = 0;
    const pid_t pid = fork();
    if (pid == 0)
        run_walk(fd);
    const int r = pid < 0 ? -errno : 0;
    close(fd);
    a->pid = r == 0 ? pid : 0;
    return r;
}

static void wait_for_end(const struct sleeping_tasks *a, int patience_ms)
{
    struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, a->pid, 0), .events = POLLIN};
    if (ended.fd < 0)
        return;
    (void)poll(&ended, 1, patience_ms);
    close(ended.fd);
}

void sleeping_tasks_end(struct sleeping_tasks *a, int patience_ms)
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

void sleeping_tasks_free(struct sleeping_tasks *a)
{
    if (!a)
        return;
    sleeping_tasks_end(a, 0);
    bpf_link__destroy(a->link);
    sleeping_tasks_bpf__destroy(a->bpf);
    free(a);
}

struct sleeping_tasks_stats sleeping_tasks_read_stats(const struct sleeping_tasks *a)
{
    return a ? a->bpf->bss->stats : (struct sleeping_tasks_stats){0};
}

size_t sleeping_tasks_memory_bytes(const struct sleeping_tasks *a, int cpu_count)
{
    return a ? map_sizes_bytes(a->bpf->maps.unwind_scratch, cpu_count) : 0;
}
