/* Which processes are watched; see watched_processes.h. A child is recognised by its fork record, independently of
 * the BPF programs' own map; after lost records that map is read. A sample always adds its process. */
#include "pipeline/watched_processes.h"

#include "resolve/proc/proc_files.h"
#include "resolve/process/processes.h"
#include "sources/sampling/task_filters.h"

#include "probes/process.h"

#include <errno.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define ANCESTORS_MAX 64

struct watched_process {
    uint32_t pid;
    bool is_followed; /* its children are followed too; false: an ancestor */
    UT_hash_handle hh;
};

struct watched_processes {
    struct watched_process *by_pid;
    uint32_t pids[TASK_FILTER_MAX];
    size_t pid_count;
    int followed_fd;
};

int watched_processes_new(const struct task_filter *filter, int followed_fd, struct watched_processes **ret)
{
    *ret = NULL;
    if (!filter->pid_count || followed_fd < 0)
        return 0;
    struct watched_processes *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    memcpy(w->pids, filter->pids, sizeof(w->pids));
    w->pid_count = filter->pid_count;
    w->followed_fd = followed_fd;
    *ret = w;
    return 0;
}

static struct watched_process *find_process(const struct watched_processes *w, uint32_t pid)
{
    struct watched_process *e;
    HASH_FIND(hh, w->by_pid, &pid, sizeof(pid), e);
    return e;
}

/* On allocation failure the process is added with its first sample. */
static void add_process(struct watched_processes *w, uint32_t pid, bool is_followed)
{
    struct watched_process *e = find_process(w, pid);
    if (!e) {
        e = calloc(1, sizeof(*e));
        if (!e)
            return;
        e->pid = pid;
        HASH_ADD(hh, w->by_pid, pid, sizeof(e->pid), e);
        if (!e->hh.tbl) {
            free(e);
            return;
        }
    }
    e->is_followed |= is_followed;
}

static void remove_process(struct watched_processes *w, struct watched_process *e)
{
    HASH_DEL(w->by_pid, e);
    free(e);
}

void watched_processes_free(struct watched_processes *w)
{
    if (!w)
        return;
    while (w->by_pid)
        remove_process(w, w->by_pid);
    free(w);
}

static void add_ancestors(struct watched_processes *w, uint32_t pid)
{
    for (int generation = 0; generation < ANCESTORS_MAX && pid; generation++) {
        struct proc_stat stat;
        _cleanup_close_ int fd = proc_open(pid);
        if (fd < 0 || proc_read_stat(fd, &stat) < 0)
            return;
        pid = stat.parent_pid;
        if (pid)
            add_process(w, pid, false);
    }
}

static void add_followed(struct watched_processes *w)
{
    uint32_t pid = 0;
    for (int i = 0; i < FILTER_MAX_FOLLOWED && task_filters_next_followed(w->followed_fd, i == 0, &pid); i++)
        add_process(w, pid, true);
}

void watched_processes_start(struct watched_processes *w, struct processes *processes)
{
    for (size_t i = 0; w && i < w->pid_count; i++) {
        add_process(w, w->pids[i], true);
        add_ancestors(w, w->pids[i]);
    }
    if (!w)
        return;
    add_followed(w);
    /* Read their mappings now: a later read, at the first sample, would include mappings made since. Later mappings
     * arrive as records, in order. */
    for (const struct watched_process *e = w->by_pid; e; e = e->hh.next)
        if (e->is_followed)
            (void)processes_find(processes, e->pid, 0);
}

/* Not while the BPF programs follow the process: its id may have been reused, or the record may predate the start. */
static void remove_if_unfollowed(struct watched_processes *w, uint32_t pid)
{
    struct watched_process *e = find_process(w, pid);
    if (e && !task_filters_is_followed(w->followed_fd, pid))
        remove_process(w, e);
}

static void take_fork(struct watched_processes *w, const struct process_fork *fork)
{
    remove_if_unfollowed(w, fork->h.pid);
    const struct watched_process *parent = find_process(w, fork->parent_pid);
    if (parent && parent->is_followed)
        add_process(w, fork->h.pid, true);
}

bool watched_processes_want(struct watched_processes *w, const struct record_header *record)
{
    if (!w)
        return true;
    switch (record->kind) {
    case RECORD_PROCESS_LOST: /* fork records may be lost, too */
        add_followed(w);
        return true;
    case RECORD_PROCESS_FORK:
        if (record->pid == record->tid)
            take_fork(w, (const struct process_fork *)record);
        break;
    case RECORD_PROCESS_EXEC:
    case RECORD_PROCESS_COMM:
    case RECORD_PROCESS_EXIT:
    case RECORD_PROCESS_MMAP:
        break;
    default: /* passed by the BPF filter */
        if (record->pid)
            add_process(w, record->pid, true);
        return true;
    }
    return find_process(w, record->pid);
}

void watched_processes_forget(struct watched_processes *w, uint32_t pid)
{
    if (w)
        remove_if_unfollowed(w, pid);
}
