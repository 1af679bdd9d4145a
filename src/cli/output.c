/* The output file of a profile; see output.h. */
#include "cli/output.h"

#include "base/cleanup.h"
#include "base/file_part.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LINKS_MAX 40 /* the kernel's MAXSYMLINKS */

/* ---- checks before recording ---- */

static void dirname_of(const char *path, char ret[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(ret, PATH_MAX, ".");
    else
        snprintf(ret, PATH_MAX, "%.*s", slash > path ? (int)(slash - path) : 1, path);
}

/* Whether another user placed the link in a sticky, world-writable directory (the kernel's protected_symlinks rule). */
static bool is_foreign(const struct stat *link, const char *directory)
{
    const mode_t shared = S_ISVTX | S_IWOTH;
    struct stat st;
    return stat(directory, &st) == 0 && (st.st_mode & shared) == shared && link->st_uid != geteuid() &&
           link->st_uid != st.st_uid;
}

/* Replaces `path` by the target of the symbolic link there. 1: done; 0: `path` is not a link; -EPERM: the link is not
 * trusted; -errno. */
static int follow_link(char path[PATH_MAX])
{
    char directory[PATH_MAX], target[PATH_MAX], next[PATH_MAX];
    struct stat st;
    if (lstat(path, &st) < 0)
        return -errno;
    if (!S_ISLNK(st.st_mode))
        return 0;
    dirname_of(path, directory);
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

/* Resolves all links. A missing file is accepted unless a link led to it (-ENOENT). */
static int resolve_links(char path[PATH_MAX])
{
    int r = 1, links = -1;
    while (r == 1 && ++links < LINKS_MAX)
        r = follow_link(path);
    if (r == 1)
        return -ELOOP;
    return r == -ENOENT && links == 0 ? 0 : r;
}

static int check_file(const struct output *o)
{
    _cleanup_(file_part_discard) struct file_part part = FILE_PART_NONE;
    int r = file_part_create(o->path, &part);
    return r < 0 ? log_errno(r, "%s: %s cannot be written", o->subcommand, o->name) : 0;
}

int output_check(const char *subcommand, const char *name, struct output *ret)
{
    struct output o = {.subcommand = subcommand, .name = name};
    struct stat st;
    if (snprintf(o.path, sizeof(o.path), "%s", name) >= (int)sizeof(o.path))
        return log_errno(-ENAMETOOLONG, "%s: %s cannot be written", subcommand, name);
    if (strcmp(name, "-") == 0) {
        *ret = o;
        return 0;
    }
    int r = resolve_links(o.path);
    if (r == -EPERM) {
        log_error("%s: %s is a symbolic link of another user in a world-writable directory: not followed", subcommand,
                  name);
        return r;
    }
    bool exists = stat(name, &st) == 0;
    if (exists && S_ISDIR(st.st_mode)) {
        log_error("%s: %s is a directory", subcommand, name);
        return -EISDIR;
    }
    o.is_stream = exists && !S_ISREG(st.st_mode);
    if (o.is_stream) {
        snprintf(o.path, sizeof(o.path), "%s", name); /* the target of a /proc/PID/fd link may have no path */
        o.device = st.st_dev;
        o.inode = st.st_ino;
    } else if (r == -ENOENT) {
        log_error("%s: %s is a link to %s, which does not exist: not written through it", subcommand, name, o.path);
        return r;
    } else {
        r = r < 0 ? log_errno(r, "%s: %s cannot be written", subcommand, name) : check_file(&o);
        if (r < 0)
            return r;
    }
    *ret = o;
    return 0;
}

/* ---- writing ---- */

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

static int save_in_directory(const struct output *o, const char *directory, const char *suffix, const char *data,
                             size_t size)
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
        log_warning("%s: it is kept in %s instead", o->subcommand, path);
    return r;
}

static void save_elsewhere(const struct output *o, const char *suffix, const char *data, size_t size)
{
    const char *const directories[] = {getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm"};
    for (size_t i = 0; i < array_size(directories); i++)
        if (directories[i] && directories[i][0] && save_in_directory(o, directories[i], suffix, data, size) == 0)
            return;
    log_error("%s: the profile is lost: it cannot be written to TMPDIR, /tmp, /var/tmp or /dev/shm either",
              o->subcommand);
}

int output_write(const struct output *o, const char *suffix, const char *data, size_t size)
{
    int r = strcmp(o->name, "-") == 0 ? file_part_write_all(STDOUT_FILENO, data, size)
            : o->is_stream            ? write_stream(o, data, size)
                                      : write_file(o, data, size);
    if (r == 0)
        return 0;
    log_errno(r, "%s: %s cannot be written", o->subcommand, strcmp(o->name, "-") == 0 ? "standard output" : o->name);
    if (r != -EPIPE) /* EPIPE: the reader closed the pipe and wants no more */
        save_elsewhere(o, suffix, data, size);
    return r;
}
