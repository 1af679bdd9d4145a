/* Resolves the process filters of `sonde record`; see record_filters.h. */
#include "recording/record_filters.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/units.h"
#include "base/user_name.h"
#include "sources/sampling/cgroup_search.h"

#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool record_filters_narrow(const struct record_filters *f)
{
    return f->pids.count || f->containers.count || f->pods.count || f->pod_labels.count || f->cgroups.count ||
           f->commands.count || f->users.count;
}

static int add_pids(const struct text_list *texts, struct task_filter *filter)
{
    for (size_t i = 0; i < texts->count; i++) {
        int64_t pid;
        if (units_parse_integer(texts->values[i], 1, 1 << 22, &pid) < 0) {
            log_error("record: --pid: '%s' is not a process number", texts->values[i]);
            return -EINVAL;
        }
        if (kill((pid_t)pid, 0) < 0 && errno == ESRCH) {
            log_error("record: no process %lld", (long long)pid);
            return -ESRCH;
        }
        filter->pids[filter->pid_count++] = (uint32_t)pid;
    }
    return 0;
}

/* Accounts for `found` cgroup IDs already written to `filter`. A container or pod may have several cgroups; all
 * filters share the table. -ESRCH after logging when there are none, or when the table is full. */
static int add_cgroups(int found, const char *what, const char *text, struct task_filter *filter)
{
    if (found > 0) {
        filter->cgroup_count += (size_t)found;
        return 0;
    }
    if (filter->cgroup_count == TASK_FILTER_MAX)
        log_error("record: at most %d cgroups can be selected", TASK_FILTER_MAX);
    else
        log_error("record: no %s '%s'", what, text);
    return -ESRCH;
}

static int add_containers(const struct text_list *texts, struct task_filter *filter)
{
    for (size_t i = 0; i < texts->count; i++) {
        int found = cgroup_search_container(texts->values[i], filter->cgroup_ids + filter->cgroup_count,
                                            TASK_FILTER_MAX - filter->cgroup_count);
        if (found == -EINVAL) {
            log_error("record: --container: '%s' is not a container ID or at least 4 leading digits of one",
                      texts->values[i]);
            return found;
        }
        int r = add_cgroups(found, "container on this node has an ID that begins with", texts->values[i], filter);
        if (r < 0)
            return r;
    }
    return 0;
}

static int add_pods(const struct text_list *texts, struct task_filter *filter)
{
    for (size_t i = 0; i < texts->count; i++) {
        if (strchr(texts->values[i], '/'))
            continue; /* NAMESPACE/NAME: resolved by record_pods.c */
        int found = cgroup_search_pod(texts->values[i], filter->cgroup_ids + filter->cgroup_count,
                                      TASK_FILTER_MAX - filter->cgroup_count);
        if (found == -EINVAL) {
            log_error(
                "record: --pod: '%s' is not the NAMESPACE/NAME or the UID of a pod (kubectl get pod NAME -o jsonpath={.metadata.uid})",
                texts->values[i]);
            return found;
        }
        int r = add_cgroups(found, "pod on this node has the UID", texts->values[i], filter);
        if (r < 0)
            return r;
    }
    return 0;
}

static int add_paths(const struct text_list *texts, struct task_filter *filter)
{
    for (size_t i = 0; i < texts->count; i++) {
        uint64_t id;
        int r = cgroup_search_path(texts->values[i], &id);
        if (r == -EINVAL) {
            log_error("record: --cgroup: '%s' is not a path below the cgroup root", texts->values[i]);
            return r;
        }
        const bool found = r == 0 && filter->cgroup_count < TASK_FILTER_MAX;
        if (found)
            filter->cgroup_ids[filter->cgroup_count] = id;
        r = add_cgroups(found, "cgroup (/proc/PID/cgroup shows the cgroup of a process)", texts->values[i], filter);
        if (r < 0)
            return r;
    }
    return 0;
}

static int add_users(const struct text_list *texts, struct task_filter *filter)
{
    for (size_t i = 0; i < texts->count; i++) {
        int r = user_name_parse(texts->values[i], &filter->users[filter->user_count]);
        if (r < 0) {
            log_error("record: --user: no user '%s' on this machine", texts->values[i]);
            return r;
        }
        filter->user_count++;
    }
    return 0;
}

int record_filters_set(const struct record_filters *f, struct task_filter *filter)
{
    for (size_t i = 0; i < f->commands.count; i++)
        snprintf(filter->commands[filter->command_count++], sizeof(filter->commands[0]), "%s", f->commands.values[i]);
    int r = add_pids(&f->pids, filter);
    if (r == 0)
        r = add_containers(&f->containers, filter);
    if (r == 0)
        r = add_pods(&f->pods, filter);
    if (r == 0)
        r = add_paths(&f->cgroups, filter);
    return r < 0 ? r : add_users(&f->users, filter);
}

static bool is_thread_name(const char *name)
{
    glob_t threads;
    bool found = false;
    char wanted[17];
    snprintf(wanted, sizeof(wanted), "%.15s\n", name); /* the kernel truncates comm to 15 bytes */
    if (glob("/proc/[0-9]*/task/[0-9]*/comm", GLOB_NOSORT, NULL, &threads) != 0)
        return false;
    for (size_t i = 0; i < threads.gl_pathc && !found; i++) {
        _cleanup_buf_ struct buf text = {0};
        if (buf_read_file(&text, threads.gl_pathv[i], 64) >= 0 && text.data)
            found = strcmp(text.data, wanted) == 0;
    }
    globfree(&threads);
    return found;
}

void record_filters_explain(const struct record_filters *f, struct buf *out)
{
    for (size_t i = 0; i < f->pids.count; i++)
        if (kill((pid_t)strtol(f->pids.values[i], NULL, 10), 0) < 0 && errno == ESRCH)
            buf_printf(out, "process %s has ended; ", f->pids.values[i]);
    for (size_t i = 0; i < f->commands.count; i++)
        if (!is_thread_name(f->commands.values[i]))
            buf_printf(out, "no thread is named '%s' now (`ps -eLo comm` lists them); ", f->commands.values[i]);
}
