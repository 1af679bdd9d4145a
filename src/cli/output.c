/* Where a profile goes; see output.h. */
#include "cli/output.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "cli/file_part.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LINKS_MAX 40

/* ---- before ---- */

static void put_directory(const char *path, char ret[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(ret, PATH_MAX, ".");
    else
        snprintf(ret, PATH_MAX, "%.*s", slash > path ? (int)(slash - path) : 1, path);
}

static bool is_foreign(const struct stat *link, const char *directory)
{
    const mode_t shared = S_ISVTX | S_IWOTH;
    struct stat st;
    return stat(directory, &st) == 0 && (st.st_mode & shared) == shared && link->st_uid != geteuid() &&
           link->st_uid != st.st_uid;
}

/* One link further: 1, 0 when `path` is none, -errno; -EPERM for one that is not to be trusted. */
static int follow(char path[PATH_MAX])
{
    char directory[PATH_MAX], target[PATH_MAX], next[PATH_MAX];
    struct stat st;
    if (lstat(path, &st) < 0)
        return -errno;
    if (!S_ISLNK(st.st_mode))
        return 0;
    put_directory(path, directory);
    if (is_foreign(&st, directory))
        return -EPERM;
    ssize_t size = readlink(path, target, sizeof(target) - 1);
    if (size < 0)
        return -errno;
    target[size] = '\0';
    if (snprintf(next, sizeof(next), "%s%s%s", target[0] == '/' ? "" : directory, target[0] == '/' ? "" : "/",
                 target) >= PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(path, next, strlen(next) + 1);
    return 1;
}

/* What is not there is fine as long as no link led to it. */
static int follow_all(char path[PATH_MAX])
{
    int r = 1, links = -1;
    while (r == 1 && ++links < LINKS_MAX)
        r = follow(path);
    if (r == 1)
        return -ELOOP;
    return r == -ENOENT && links == 0 ? 0 : r;
}

static int check_file(const struct output *o)
{
    _cleanup_(file_part_discard) struct file_part part = FILE_PART_NONE;
    int r = file_part_create(o->path, &part);
    return r < 0 ? log_errno(r, "%s: %s cannot be written", o->verb, o->asked) : 0;
}

int output_check(const char *verb, const char *asked, struct output *ret)
{
    struct output o = {.verb = verb, .asked = asked};
    struct stat st;
    if (snprintf(o.path, sizeof(o.path), "%s", asked) >= (int)sizeof(o.path))
        return log_errno(-ENAMETOOLONG, "%s: %s cannot be written", verb, asked);
    if (strcmp(asked, "-") == 0) {
        *ret = o;
        return 0;
    }
    int r = follow_all(o.path);
    if (r == -EPERM) {
        log_error("%s: %s leads over a link that somebody else made in a directory that all may write to: not followed",
                  verb, asked);
        return r;
    }
    bool exists = stat(asked, &st) == 0;
    if (exists && S_ISDIR(st.st_mode)) {
        log_error("%s: %s is a directory", verb, asked);
        return -EISDIR;
    }
    o.is_stream = exists && !S_ISREG(st.st_mode);
    if (o.is_stream) {
        snprintf(o.path, sizeof(o.path), "%s", asked); /* where /proc/PID/fd leads has no path */
        o.device = st.st_dev;
        o.inode = st.st_ino;
    } else if (r == -ENOENT) {
        log_error("%s: %s is a link to %s, which is not there: not written through it", verb, asked, o.path);
        return r;
    } else {
        r = r < 0 ? log_errno(r, "%s: %s cannot be written", verb, asked) : check_file(&o);
        if (r < 0)
            return r;
    }
    *ret = o;
    return 0;
}

/* ---- after ---- */

static int write_stream(const struct output *o, const char *data, size_t size)
{
    struct stat st;
    _cleanup_close_ int fd = open(o->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (st.st_dev != o->device || st.st_ino != o->inode)
        return -ESTALE;
    return file_part_write_all(fd, data, size);
}

static int write_file(const struct output *o, const char *data, size_t size)
{
    _cleanup_(file_part_discard) struct file_part part = FILE_PART_NONE;
    int r = file_part_create(o->path, &part);
    if (r == 0)
        r = file_part_write_all(part.fd, data, size);
    return r < 0 ? r : file_part_commit(&part, o->path);
}

static int keep_in(const struct output *o, const char *directory, const char *suffix, const char *data, size_t size)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/sonde-XXXXXX%s", directory, suffix) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    int fd = mkostemps(path, (int)strlen(suffix), O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = file_part_write_all(fd, data, size);
    if (close(fd) < 0 && r == 0)
        r = -errno;
    if (r < 0)
        unlink(path);
    else
        log_warning("%s: it is kept in %s instead", o->verb, path);
    return r;
}

static void keep_elsewhere(const struct output *o, const char *suffix, const char *data, size_t size)
{
    const char *const directories[] = {getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm"};
    for (size_t i = 0; i < array_size(directories); i++)
        if (directories[i] && directories[i][0] && keep_in(o, directories[i], suffix, data, size) == 0)
            return;
    log_error("%s: nor in TMPDIR, /tmp, /var/tmp or /dev/shm: it is lost", o->verb);
}

int output_write(const struct output *o, const char *suffix, const char *data, size_t size)
{
    int r = strcmp(o->asked, "-") == 0 ? file_part_write_all(STDOUT_FILENO, data, size)
            : o->is_stream             ? write_stream(o, data, size)
                                       : write_file(o, data, size);
    if (r == 0)
        return 0;
    log_errno(r, "%s: %s cannot be written", o->verb, strcmp(o->asked, "-") == 0 ? "standard output" : o->asked);
    if (r != -EPIPE) /* a reader who went has seen what he wanted */
        keep_elsewhere(o, suffix, data, size);
    return r;
}
