/* Reads /proc once, at open. Children that are born later are followed by the kernel half itself. */
#include "sources/cpu_filters.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include "../../probes/cpu.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOUNTINFO_MAX_BYTES (4U << 20)

/* Whether a mountinfo line's super options hold `controller`: "... - cgroup cgroup rw,memory". */
static bool line_has_controller(const char *line, size_t size, const char *controller)
{
    static const char type[] = " - cgroup ";
    const char *options = memmem(line, size, type, sizeof(type) - 1);
    const char *end = line + size;
    size_t length = strlen(controller);

    if (!options)
        return false;
    options = memchr(options + sizeof(type) - 1, ' ', (size_t)(end - options) - (sizeof(type) - 1));
    while (options && options < end) {
        const char *word = options + 1;
        const char *next = memchr(word, ',', (size_t)(end - word));
        size_t n = (size_t)((next ? next : end) - word);

        if (n == length && memcmp(word, controller, n) == 0)
            return true;
        options = next;
    }
    return false;
}

const char *cpu_filters_pick_controller(const char *mountinfo)
{
    static const char *const controllers[] = {"memory", "cpuacct", "cpu", "pids", "devices"};

    for (size_t i = 0; i < array_size(controllers); i++) {
        for (const char *line = mountinfo; *line;) {
            size_t size = strcspn(line, "\n");

            if (line_has_controller(line, size, controllers[i]))
                return controllers[i];
            line += size + (line[size] == '\n');
        }
    }
    return NULL;
}

/* The kernel numbers its controllers by what it was built with; its BTF knows. */
static int controller_index(const char *controller)
{
    struct btf *btf = btf__load_vmlinux_btf();
    const struct btf_type *type;
    const struct btf_enum *values;
    char name[64];
    int id, index = -1;

    if (!btf)
        return -1;
    id = btf__find_by_name_kind(btf, "cgroup_subsys_id", BTF_KIND_ENUM);
    type = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;
    snprintf(name, sizeof(name), "%s_cgrp_id", controller);
    values = type ? btf_enum(type) : NULL;
    for (int i = 0; values && i < btf_vlen(type); i++)
        if (strcmp(btf__name_by_offset(btf, values[i].name_off), name) == 0)
            index = values[i].val;
    btf__free(btf);
    return index;
}

int cpu_filters_cgroup_controller(void)
{
    _cleanup_buf_ struct buf text = {0};
    const char *controller;

    if (buf_read_file(&text, "/proc/self/mountinfo", MOUNTINFO_MAX_BYTES) < 0 || !text.data)
        return -1;
    controller = cpu_filters_pick_controller(text.data);
    return controller ? controller_index(controller) : -1;
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
    after = text.data ? strrchr(text.data, ')') : NULL; /* a command may hold anything */
    if (!after || sscanf(after, ") %*c %u", &parent) != 1)
        return -EBADMSG;
    *ret = (struct kinship){.pid = (uint32_t)strtoul(pid_text, NULL, 10), .parent = parent};
    return 0;
}

/* All processes and their parents. The caller frees. */
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
        if (read_parent(entry->d_name, &list[count]) == 0) /* else it has gone */
            count++;
    }
    closedir(proc);
    *ret = take_ptr(list);
    *ret_count = count;
    return 0;
}

static int follow(int fd, uint32_t pid)
{
    const uint8_t yes = 1;

    return bpf_map_update_elem(fd, &pid, &yes, BPF_ANY);
}

static int follow_existing_children(int fd)
{
    _cleanup_free_ struct kinship *list = NULL;
    size_t count = 0;
    bool more = true;
    uint8_t value;
    int r = read_kinships(&list, &count);

    while (r == 0 && more) { /* until a round finds no new child: as many rounds as the tree is deep */
        more = false;
        for (size_t i = 0; i < count && r == 0; i++) {
            if (bpf_map_lookup_elem(fd, &list[i].parent, &value) < 0 || bpf_map_lookup_elem(fd, &list[i].pid, &value) == 0)
                continue;
            r = follow(fd, list[i].pid);
            more = true;
        }
    }
    return r;
}

int cpu_filters_fill(const struct source_options *options, int followed_fd, int cgroups_fd, int commands_fd)
{
    const uint8_t yes = 1;
    int r = 0;

    for (size_t i = 0; i < options->pid_count && r == 0; i++)
        r = follow(followed_fd, options->pids[i]);
    if (r == 0 && options->pid_count > 0)
        r = follow_existing_children(followed_fd);
    for (size_t i = 0; i < options->cgroup_count && r == 0; i++)
        r = bpf_map_update_elem(cgroups_fd, &options->cgroup_ids[i], &yes, BPF_ANY);
    for (size_t i = 0; i < options->command_count && r == 0; i++) {
        char name[16] = {0};

        snprintf(name, sizeof(name), "%s", options->commands[i]);
        r = bpf_map_update_elem(commands_fd, name, &yes, BPF_ANY);
    }
    return r;
}
