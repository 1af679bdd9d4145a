/* Reads and parses /proc/PID; see proc_files.h and proc(5). */
#include "resolve/proc/proc_files.h"

#include "resolve/proc/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PF_KTHREAD       0x00200000 /* of the kernel's task flags, field 9 */
#define STATUS_MAX_BYTES (1 << 20)  /* a process may have 65,536 groups */

enum { FIELD_STATE = 3, FIELD_PARENT = 4, FIELD_FLAGS = 9, FIELD_THREADS = 20, FIELD_START = 22 };

/* The command is in parentheses and may contain anything, including parentheses and blanks: it ends at the last one
 * of the line. */
static const char *copy_command(const char *text, size_t size, char ret[16])
{
    const char *open = memchr(text, '(', size), *close = memrchr(text, ')', size);
    if (!open || !close || close < open)
        return NULL;
    size_t n = (size_t)(close - open - 1);
    if (n > 15)
        n = 15;
    memcpy(ret, open + 1, n);
    memset(ret + n, 0, 16 - n);
    return close + 1;
}

int proc_stat_parse(const char *text, size_t size, struct proc_stat *ret)
{
    struct proc_stat s = {0};
    const char *end = text + size;
    const char *at = copy_command(text, size, s.command);
    if (!at)
        return -EBADMSG;

    uint64_t start_ticks = 0;
    int field = FIELD_STATE - 1;
    while (field < FIELD_START && at < end && *at == ' ') {
        at++;
        field++;
        if (field == FIELD_STATE && at < end) {
            s.state = *at++;
            continue;
        }
        uint64_t value = 0;
        if (at < end && *at == '-')
            at++;
        for (; at < end && *at >= '0' && *at <= '9'; at++)
            value = value * 10 + (uint64_t)(*at - '0');
        if (field == FIELD_PARENT)
            s.parent_pid = (uint32_t)value;
        else if (field == FIELD_FLAGS)
            s.is_kernel_thread = value & PF_KTHREAD;
        else if (field == FIELD_THREADS)
            s.threads = (uint32_t)value;
        else if (field == FIELD_START)
            start_ticks = value;
    }
    if (field < FIELD_START)
        return -EBADMSG;
    s.start_boot_ns = start_ticks * PROC_START_TICK_NS;

    /* A kernel worker's name includes its current work ("kworker/0:1-events"): that suffix is removed. */
    if (s.is_kernel_thread && strncmp(s.command, "kworker/", 8) == 0)
        s.command[strcspn(s.command, "+-")] = '\0';
    *ret = s;
    return 0;
}

int proc_open(uint32_t pid)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%" PRIu32, pid);
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    return fd;
}

int proc_read(int proc_fd, const char *name, size_t max_bytes, struct buf *to)
{
    _cleanup_close_ int fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    const size_t before = to->size;
    int r = buf_read_fd(to, fd, max_bytes);
    if (r == -EFBIG && to->size > before + max_bytes)
        to->size = before + max_bytes;
    return r == -EFBIG ? 0 : r;
}

int proc_read_stat(int proc_fd, struct proc_stat *ret)
{
    char text[1024];
    _cleanup_close_ int fd = openat(proc_fd, "stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, text, sizeof(text));
    if (n < 0)
        return -errno;
    return proc_stat_parse(text, (size_t)n, ret);
}

bool proc_is_gone(uint32_t pid)
{
    _cleanup_close_ int fd = proc_open(pid);
    struct proc_stat stat;
    return fd < 0 || proc_read_stat(fd, &stat) < 0 || (stat.threads <= 1 && (stat.state == 'Z' || stat.state == 'X'));
}

int proc_read_executable(int proc_fd, char *ret, size_t size)
{
    ssize_t n = readlinkat(proc_fd, "exe", ret, size - 1);
    if (n < 0) {
        ret[0] = '\0';
        return -errno;
    }
    ret[maps_path_without_deleted(ret, (size_t)n)] = '\0';
    return 0;
}

/* The text after "Key:\t" of a line; NULL: no such key. The command is the first line and has its line feeds
 * escaped, so it cannot fake a key. */
static const char *find_value(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at ? at + strlen(key) : NULL;
}

int proc_ids_parse(const char *text, struct proc_ids *ret)
{
    struct proc_ids ids;
    const char *users = find_value(text, "\nUid:\t"), *pids = find_value(text, "\nNSpid:\t");
    if (!users || !pids ||
        sscanf(users, "%" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32, &ids.users[0], &ids.users[1], &ids.users[2],
               &ids.users[3]) != 4)
        return -EBADMSG;
    uint64_t pid = 0;
    for (; *pids && *pids != '\n'; pids++) {
        if (*pids == '\t')
            pid = 0;
        else if (*pids < '0' || *pids > '9' || pid > UINT32_MAX)
            return -EBADMSG;
        else
            pid = pid * 10 + (uint64_t)(*pids - '0');
    }
    if (pid == 0 || pid > UINT32_MAX)
        return -EBADMSG;
    ids.innermost_pid = (uint32_t)pid;
    *ret = ids;
    return 0;
}

int proc_read_switches(uint32_t pid, uint32_t tid, uint64_t *ret)
{
    _cleanup_buf_ struct buf text = {0};
    uint64_t voluntary, involuntary;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/task/%" PRIu32 "/status", pid, tid);
    const int r = buf_read_file(&text, path, STATUS_MAX_BYTES);
    if (r < 0)
        return r;
    const char *of_its_own = text.size ? find_value(text.data, "\nvoluntary_ctxt_switches:\t") : NULL;
    const char *others = text.size ? find_value(text.data, "\nnonvoluntary_ctxt_switches:\t") : NULL;
    if (!of_its_own || !others || sscanf(of_its_own, "%" SCNu64, &voluntary) != 1 ||
        sscanf(others, "%" SCNu64, &involuntary) != 1)
        return -EBADMSG;
    *ret = voluntary + involuntary;
    return 0;
}

int proc_read_ids(int proc_fd, struct proc_ids *ret)
{
    _cleanup_buf_ struct buf text = {0};
    int r = proc_read(proc_fd, "status", STATUS_MAX_BYTES, &text);
    return r < 0 ? r : text.size ? proc_ids_parse(text.data, ret) : -ESRCH;
}

uint32_t proc_innermost_pid(uint32_t pid)
{
    _cleanup_close_ int fd = proc_open(pid);
    struct proc_ids ids;
    return fd >= 0 && proc_read_ids(fd, &ids) == 0 ? ids.innermost_pid : pid;
}

bool proc_ids_have_user(const struct proc_ids *ids, uint32_t user)
{
    for (size_t i = 0; i < array_size(ids->users); i++)
        if (ids->users[i] == user)
            return true;
    return false;
}
