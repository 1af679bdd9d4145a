/* Reads the process tree from /proc once, when the tables are created. The BPF programs add later children themselves.
 */
#include "sources/sampling/task_filters.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/mounts.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const controllers[] = {
    [CGROUP_HIERARCHY_MEMORY] = "memory", [CGROUP_HIERARCHY_CPUACCT] = "cpuacct", [CGROUP_HIERARCHY_CPU] = "cpu",
    [CGROUP_HIERARCHY_PIDS] = "pids",     [CGROUP_HIERARCHY_DEVICES] = "devices",
};

static bool has_controller(const char *mountinfo, const char *controller)
{
    struct mount m;

    while (mounts_next(&mountinfo, &m))
        if (mounts_text_is(&m.type, "cgroup") && mounts_has_option(&m, controller))
            return true;
    return false;
}

enum cgroup_hierarchy task_filters_pick_cgroups(const char *mountinfo)
{
    for (size_t i = CGROUP_HIERARCHY_MEMORY; i < array_size(controllers); i++)
        if (has_controller(mountinfo, controllers[i]))
            return (enum cgroup_hierarchy)i;
    return CGROUP_HIERARCHY_V2;
}

const char *task_filters_pick_controller(const char *mountinfo)
{
    return controllers[task_filters_pick_cgroups(mountinfo)];
}

enum cgroup_hierarchy task_filters_cgroups(void)
{
    _cleanup_buf_ struct buf text = {0};

    if (buf_read_file(&text, "/proc/self/mountinfo", MOUNTS_MAX_BYTES) < 0 || !text.data)
        return CGROUP_HIERARCHY_V2;
    return task_filters_pick_cgroups(text.data);
}

struct kinship {
    uint32_t pid, parent;
};

static int read_parent(const char *pid_text, struct kinship *ret)
{
    _cleanup_buf_ struct buf text = {0};
    char path[64];
    const char *after;
    unsigned parent;
    int r;

    snprintf(path, sizeof(path), "/proc/%.16s/stat", pid_text);
    r = buf_read_file(&text, path, 4096);
    if (r < 0)
        return r;
    after = text.data ? strrchr(text.data, ')') : NULL; /* the command may contain any character */
    if (!after || sscanf(after, ") %*c %u", &parent) != 1)
        return -EBADMSG;
    *ret = (struct kinship){.pid = (uint32_t)strtoul(pid_text, NULL, 10), .parent = parent};
    return 0;
}

/* Lists all processes with their parents. The caller frees `*ret`. */
static int read_kinships(struct kinship **ret, size_t *ret_count)
{
    _cleanup_free_ struct kinship *list = NULL;
    size_t count = 0, capacity = 0;
    struct dirent *entry;
    DIR *proc = opendir("/proc");

    if (!proc)
        return -errno;
    while ((entry = readdir(proc))) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        if (count == capacity) {
            size_t grown = capacity ? capacity * 2 : 256;
            struct kinship *bigger = reallocarray(list, grown, sizeof(*list));

            if (!bigger)
                break;
            list = bigger;
            capacity = grown;
        }
        if (read_parent(entry->d_name, &list[count]) == 0) /* otherwise the process has ended */
            count++;
    }
    closedir(proc);
    *ret = take_ptr(list);
    *ret_count = count;
    return 0;
}

static int add_process(int fd, uint32_t pid)
{
    const uint64_t start_ns = 0;

    return bpf_map_update_elem(fd, &pid, &start_ns, BPF_ANY);
}

static int add_existing_children(int fd)
{
    _cleanup_free_ struct kinship *list = NULL;
    size_t count = 0;
    bool more = true;
    uint64_t value;
    int r = read_kinships(&list, &count);

    while (r == 0 && more) { /* until a pass adds no process: one pass per level of the tree */
        more = false;
        for (size_t i = 0; i < count && r == 0; i++) {
            if (bpf_map_lookup_elem(fd, &list[i].parent, &value) < 0 ||
                bpf_map_lookup_elem(fd, &list[i].pid, &value) == 0)
                continue;
            r = add_process(fd, list[i].pid);
            more = true;
        }
    }
    return r;
}

struct filter_settings task_filters_settings(const struct task_filter *filter)
{
    return (struct filter_settings){.skip_pid = filter->skip_self ? (uint32_t)getpid() : 0,
                                    .pids = filter->pid_count > 0,
                                    .cgroups = filter->cgroup_count > 0,
                                    .commands = filter->command_count > 0,
                                    .users = filter->user_count > 0};
}

int task_filters_fill(const struct task_filter *filter, int followed_fd, int cgroups_fd, int commands_fd, int users_fd)
{
    const uint8_t yes = 1;
    int r = 0;

    for (size_t i = 0; i < filter->pid_count && r == 0; i++)
        r = add_process(followed_fd, filter->pids[i]);
    if (r == 0 && filter->pid_count > 0)
        r = add_existing_children(followed_fd);
    for (size_t i = 0; i < filter->cgroup_count && r == 0; i++)
        r = bpf_map_update_elem(cgroups_fd, &filter->cgroup_ids[i], &yes, BPF_ANY);
    for (size_t i = 0; i < filter->user_count && r == 0; i++)
        r = bpf_map_update_elem(users_fd, &filter->users[i], &yes, BPF_ANY);
    for (size_t i = 0; i < filter->command_count && r == 0; i++) {
        char name[16] = {0};

        snprintf(name, sizeof(name), "%s", filter->commands[i]);
        r = bpf_map_update_elem(commands_fd, name, &yes, BPF_ANY);
    }
    return r;
}

static bool is_among(const uint64_t *ids, size_t count, uint64_t id)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

int task_filters_set_cgroups(int cgroups_fd, const uint64_t *ids, size_t count)
{
    uint64_t gone[TASK_FILTER_MAX], id;
    const uint8_t yes = 1;
    size_t gone_count = 0;
    int r = 0;

    for (uint64_t *before = NULL; gone_count < TASK_FILTER_MAX && bpf_map_get_next_key(cgroups_fd, before, &id) == 0;
         before = &id)
        if (!is_among(ids, count, id))
            gone[gone_count++] = id;
    for (size_t i = 0; i < gone_count; i++) /* obsolete IDs go first, to make room */
        (void)bpf_map_delete_elem(cgroups_fd, &gone[i]);
    for (size_t i = 0; i < count && r == 0; i++)
        r = bpf_map_update_elem(cgroups_fd, &ids[i], &yes, BPF_ANY);
    return r == -E2BIG ? -ENOSPC : r;
}

bool task_filters_is_followed(int followed_fd, uint32_t pid)
{
    uint64_t since;
    return bpf_map_lookup_elem(followed_fd, &pid, &since) == 0;
}

bool task_filters_next_followed(int followed_fd, bool first, uint32_t *pid)
{
    return bpf_map_get_next_key(followed_fd, first ? NULL : pid, pid) == 0;
}
