/* Finds the tasks of a report, and their end; see io_report_target.h. */
#include "io_report/io_report_target.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "resolve/proc/job.h"
#include "resolve/proc/proc_files.h"
#include "sources/sampling/cgroup_search.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOB_PREFIX_MIN    12 /* characters of an ID, as `sonde io` shows container IDs */
#define COMMAND_BYTES     4096
#define CGROUP_TEXT_BYTES 65536
#define CHECK_NS          1000000000ull /* between two checks of a job's cgroups */

void io_report_target_clear(struct io_report_target *t)
{
    for (size_t i = 0; i < t->cgroup_count; i++)
        free(t->cgroups[i]);
    child_end(&t->child);
    closep(&t->pid_fd);
    free(t->title);
    free(t->executable);
    free(t->job_id);
}

/* ---- a job ---- */

struct job_search {
    struct io_report_target *target;
    struct task_filter *filter;
    const char *text;
    struct job found;
    bool is_ambiguous;
    int error;
};

/* "4711", or "slurm 4711" as `sonde io` prints it, or the beginning of a container's ID. */
static bool is_job(const struct job *job, const char *text)
{
    const size_t manager = strlen(job->manager), length = strlen(text);
    if (strncmp(text, job->manager, manager) == 0 && text[manager] == ' ')
        return is_job(job, text + manager + 1);
    if (strcmp(job->id, text) == 0)
        return true;
    return length >= JOB_PREFIX_MIN &&
           (strncmp(job->id, text, length) == 0 || strncmp(job->container_id, text, length) == 0);
}

static bool is_same_job(const struct job *a, const struct job *b)
{
    return strcmp(a->manager, b->manager) == 0 && strcmp(a->id, b->id) == 0;
}

/* The index of a cgroup of the job that `path` begins with, to its end or to a slash; `cgroup_count`: none. */
static size_t find_above(const struct io_report_target *t, const char *path)
{
    for (size_t i = 0; i < t->cgroup_count; i++) {
        const size_t length = strlen(t->cgroups[i]);
        if (strncmp(path, t->cgroups[i], length) == 0 && (path[length] == '/' || !path[length]))
            return i;
    }
    return t->cgroup_count;
}

/* The filter includes the descendants of a cgroup found before: parents come first. */
static bool is_below_found(const struct io_report_target *t, const char *path)
{
    return find_above(t, path) < t->cgroup_count;
}

static void take_cgroup(void *context, const char *path, uint64_t id)
{
    struct job_search *search = context;
    struct io_report_target *t = search->target;
    struct job job;
    job_from_cgroup(path, &job);
    if (!is_job(&job, search->text) || is_below_found(t, path) || search->error)
        return;
    if (t->cgroup_count && !is_same_job(&job, &search->found))
        search->is_ambiguous = true;
    search->found = job;
    if (t->cgroup_count == TASK_FILTER_MAX) {
        search->error = -E2BIG;
        return;
    }
    t->cgroups[t->cgroup_count] = strdup(path);
    if (!t->cgroups[t->cgroup_count])
        search->error = -ENOMEM;
    else
        search->filter->cgroup_ids[t->cgroup_count++] = id;
    search->filter->cgroup_count = t->cgroup_count;
}

static int set_job(struct io_report_target *t, const char *text, struct task_filter *filter)
{
    struct job_search search = {.target = t, .filter = filter, .text = text};
    const int r = cgroup_search_each(take_cgroup, &search) ?: search.error;
    if (r < 0)
        return log_errno(r, "io report: --job: the cgroups cannot be searched");
    if (!t->cgroup_count)
        return log_errno(-ESRCH, "io report: --job: no job '%s' is running (`sonde io` lists jobs that do I/O)", text);
    if (search.is_ambiguous)
        return log_errno(-EINVAL, "io report: --job: '%s' is a job of several managers: write it as in '%s %s'", text,
                         search.found.manager, search.found.id);
    t->job_id = strdup(search.found.id);
    return t->job_id && asprintf(&t->title, "%s %s", search.found.manager, search.found.id) >= 0 ? 0 : -ENOMEM;
}

/* A process has a line for each hierarchy: "4:memory:/slurm/uid_0/job_4711". */
bool io_report_target_has(const struct io_report_target *t, uint32_t pid)
{
    _cleanup_buf_ struct buf text = {0};
    _cleanup_close_ int proc = t->cgroup_count ? proc_open(pid) : -1;
    char *rest = NULL;
    if (proc < 0 || proc_read(proc, "cgroup", CGROUP_TEXT_BYTES, &text) < 0 || !text.size)
        return false;
    for (char *line = strtok_r(text.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *controllers = strchr(line, ':'), *cgroup = controllers ? strchr(controllers + 1, ':') : NULL;
        if (cgroup && find_above(t, cgroup + 1) < t->cgroup_count)
            return true;
    }
    return false;
}

static bool is_job_gone(const struct io_report_target *t)
{
    const int root = cgroup_search_open();
    bool is_gone = root >= 0;
    for (size_t i = 0; i < t->cgroup_count && is_gone; i++)
        is_gone = faccessat(root, t->cgroups[i][1] ? t->cgroups[i] + 1 : ".", F_OK, 0) < 0 && errno == ENOENT;
    if (root >= 0)
        close(root);
    return is_gone;
}

/* ---- a process ---- */

/* The arguments, with spaces between them. NULL: no memory. */
static char *read_command_line(int64_t pid)
{
    _cleanup_buf_ struct buf text = {0};
    char path[64];
    snprintf(path, sizeof(path), "/proc/%lld/cmdline", (long long)pid);
    (void)buf_read_file(&text, path, COMMAND_BYTES);
    for (size_t i = 0; i + 1 < text.size; i++)
        if (!text.data[i])
            text.data[i] = ' ';
    return strdup(text.size ? text.data : "");
}

static int set_process(struct io_report_target *t, int64_t pid, struct task_filter *filter)
{
    t->pid_fd = pidfd_open((pid_t)pid, 0);
    if (t->pid_fd < 0)
        return log_errno(-errno, "io report: --pid: %lld", (long long)pid);
    t->executable = read_command_line(pid);
    filter->pids[filter->pid_count++] = (uint32_t)pid;
    return t->executable && asprintf(&t->title, "process %lld", (long long)pid) >= 0 ? 0 : -ENOMEM;
}

/* ---- a command ---- */

static char *join(char **command)
{
    _cleanup_buf_ struct buf text = {.max_bytes = COMMAND_BYTES};
    for (size_t i = 0; command[i]; i++)
        buf_printf(&text, "%s%s", i ? " " : "", command[i]);
    return text.size ? strdup(text.data) : NULL;
}

static int set_command(struct io_report_target *t, char **command, struct task_filter *filter)
{
    signal(SIGCHLD, SIG_DFL); /* where it is ignored, there is no exit status */
    const int r = child_prepare(&t->child, "io report", command);
    if (r < 0)
        return r;
    t->pid_fd = pidfd_open(t->child.pid, 0);
    if (t->pid_fd < 0)
        return log_errno(-errno, "io report: the command cannot be watched");
    filter->pids[filter->pid_count++] = (uint32_t)t->child.pid;
    t->executable = join(command);
    t->title = t->executable ? strdup(t->executable) : NULL;
    return t->title ? 0 : -ENOMEM;
}

int io_report_target_set(struct io_report_target *t, const char *job, int64_t pid, char **command,
                         struct task_filter *filter)
{
    *t = (struct io_report_target){.child = CHILD_NONE, .pid_fd = -1};
    const int r = job ? set_job(t, job, filter) : pid ? set_process(t, pid, filter) : set_command(t, command, filter);
    if (r == 0 && !t->executable)
        t->executable = strdup("");
    if (r == 0 && !t->job_id)
        t->job_id = strdup("");
    return r < 0 ? r : t->executable && t->job_id ? 0 : -ENOMEM;
}

int io_report_target_start(struct io_report_target *t)
{
    return t->child.pid > 0 ? child_release(&t->child) : 0;
}

void io_report_target_terminate(const struct io_report_target *t, int signal_number)
{
    if (t->child.pid > 0)
        kill(t->child.pid, signal_number);
}

bool io_report_target_wait(struct io_report_target *t, uint64_t wait_ns)
{
    struct pollfd pid_fd = {.fd = t->pid_fd, .events = POLLIN}; /* without one: a pause */
    const bool has_ended = poll(&pid_fd, 1, (int)(wait_ns / 1000000)) > 0;
    if (t->cgroup_count) {
        const uint64_t now_ns = clock_monotonic_ns();
        const bool is_due = now_ns >= t->checked_ns + CHECK_NS;
        t->checked_ns = is_due ? now_ns : t->checked_ns;
        return is_due && is_job_gone(t);
    }
    if (has_ended && t->child.pid > 0) {
        while (waitpid(t->child.pid, &t->status, 0) < 0 && errno == EINTR)
            ;
        t->child.pid = 0;
    }
    return has_ended;
}
