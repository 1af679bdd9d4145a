/* Scans the descriptors of all processes; see bpf_holders.h. Costs one readlink per descriptor; fdinfo is read only for
 * BPF descriptors. */
#include "resolve/kernel/bpf_holders.h"

#include "base/buf.h"
#include "base/units.h"
#include "resolve/proc/proc_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOLDERS_MAX  65536
#define FDINFO_BYTES 4096

struct walk {
    struct bpf_holder *holders;
    size_t count, capacity;
};

uint32_t bpf_holders_parse(const char *fdinfo)
{
    static const char key[] = "prog_id:";
    for (const char *line = fdinfo; line; line = (line = strchr(line, '\n')) ? line + 1 : NULL)
        if (strncmp(line, key, sizeof(key) - 1) == 0) {
            const char *digits = line + sizeof(key) - 1;
            digits += strspn(digits, " \t");
            char *end;
            errno = 0;
            const unsigned long id = strtoul(digits, &end, 10);
            return end > digits && *digits >= '0' && *digits <= '9' && !errno && id <= UINT32_MAX &&
                           (*end == '\n' || !*end)
                       ? (uint32_t)id
                       : 0;
        }
    return 0;
}

static int add_holder(struct walk *w, uint32_t program, uint32_t pid, const char *command)
{
    for (size_t i = w->count; i > 0 && w->holders[i - 1].pid == pid; i--) /* a program and its links count once */
        if (w->holders[i - 1].program == program)
            return 0;
    if (w->count == HOLDERS_MAX)
        return 0;
    if (w->count == w->capacity) {
        const size_t capacity = w->capacity ? w->capacity * 2 : 64;
        struct bpf_holder *grown = realloc(w->holders, capacity * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        w->holders = grown;
        w->capacity = capacity;
    }
    struct bpf_holder *h = &w->holders[w->count++];
    *h = (struct bpf_holder){.program = program, .pid = pid};
    snprintf(h->command, sizeof(h->command), "%s", command);
    return 0;
}

static bool is_bpf_descriptor(int fds, const char *name)
{
    char target[64];
    const ssize_t size = readlinkat(fds, name, target, sizeof(target) - 1);
    if (size <= 0)
        return false;
    target[size] = '\0';
    return strcmp(target, "anon_inode:bpf-prog") == 0 || strcmp(target, "anon_inode:bpf_link") == 0;
}

/* -EACCES: no permission. A process that exits meanwhile has no holders. */
static int read_process(struct walk *w, uint32_t pid)
{
    _cleanup_close_ int proc = proc_open(pid);
    if (proc < 0)
        return 0;
    const int fds = openat(proc, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fds < 0)
        return errno == EACCES || errno == EPERM ? -EACCES : 0;
    DIR *list = fdopendir(fds);
    if (!list) {
        close(fds);
        return -ENOMEM;
    }
    struct proc_stat stat = {0};
    int r = 0;
    for (const struct dirent *entry; r == 0 && (entry = readdir(list));) {
        char name[64];
        uint32_t program = 0;
        if (entry->d_name[0] == '.' || !is_bpf_descriptor(fds, entry->d_name))
            continue;
        snprintf(name, sizeof(name), "fdinfo/%.40s", entry->d_name);
        _cleanup_buf_ struct buf text = {0};
        if (proc_read(proc, name, FDINFO_BYTES, &text) >= 0 && text.data)
            program = bpf_holders_parse(text.data);
        if (program && !stat.command[0])
            (void)proc_read_stat(proc, &stat);
        if (program)
            r = add_holder(w, program, pid, stat.command);
    }
    closedir(list);
    return r;
}

static int compare_holders(const void *a, const void *b)
{
    const struct bpf_holder *x = a, *y = b;
    if (x->program != y->program)
        return x->program < y->program ? -1 : 1;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

int bpf_holders_read(struct bpf_holder **ret, size_t *ret_count, uint64_t *ret_refused)
{
    struct walk w = {0};
    uint64_t refused = 0;
    DIR *processes = opendir("/proc");
    if (!processes)
        return -errno;
    int r = 0;
    for (const struct dirent *entry; r == 0 && (entry = readdir(processes));) {
        int64_t pid;
        if (units_parse_integer(entry->d_name, 1, INT32_MAX, &pid) < 0 || pid == getpid())
            continue;
        r = read_process(&w, (uint32_t)pid);
        refused += r == -EACCES;
        if (r == -EACCES)
            r = 0;
    }
    closedir(processes);
    if (r < 0) {
        free(w.holders);
        return r;
    }
    if (w.count)
        qsort(w.holders, w.count, sizeof(*w.holders), compare_holders);
    *ret = w.holders;
    *ret_count = w.count;
    *ret_refused = refused;
    return 0;
}
