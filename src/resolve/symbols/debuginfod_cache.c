/* The cache directory of debug files; see debuginfod_cache.h. */
#include "resolve/symbols/debuginfod_cache.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#define ABSENT_SECONDS 600 /* elfutils' default */
#define FILE_NAME      "debuginfo"

static int join_path(char ret[DEBUGINFOD_CACHE_PATH_BYTES], const char *folder, const char *rest)
{
    const int n = snprintf(ret, DEBUGINFOD_CACHE_PATH_BYTES, "%s%s", folder, rest);
    return n < DEBUGINFOD_CACHE_PATH_BYTES && ret[0] == '/' ? 0 : -ENOENT;
}

int debuginfod_cache_path(char ret[DEBUGINFOD_CACHE_PATH_BYTES])
{
    const char *configured = getenv("DEBUGINFOD_CACHE_PATH"), *home = getenv("HOME"),
               *caches = getenv("XDG_CACHE_HOME");
    if (configured && *configured)
        return join_path(ret, configured, "");
    if (home && join_path(ret, home, "/.debuginfod_client_cache") == 0 &&
        access(ret, F_OK) == 0) /* the place before XDG */
        return 0;
    if (caches && *caches)
        return join_path(ret, caches, "/debuginfod_client");
    return home ? join_path(ret, home, "/.cache/debuginfod_client") : -ENOENT;
}

static int open_folder(int at, const char *path)
{
    const int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Creates the missing directories of `path`, only in parents that belong to us or to root. */
static int make_folders(char *path)
{
    _cleanup_close_ int parent = open_folder(AT_FDCWD, "/");
    for (char *name = path + strspn(path, "/"), *slash; *name; name = slash) {
        struct stat st;
        slash = name + strcspn(name, "/");
        slash += strspn(slash, "/");
        const char kept = *slash;
        *slash = '\0'; /* a name may keep its slashes */
        int fd = parent < 0 ? parent : open_folder(parent, name);
        if (fd == -ENOENT) {
            if (fstat(parent, &st) < 0 || (st.st_uid != geteuid() && st.st_uid != 0))
                return -EPERM;
            fd = mkdirat(parent, name, 0700) < 0 && errno != EEXIST ? -errno : open_folder(parent, name);
        }
        *slash = kept;
        if (fd < 0)
            return fd;
        close(parent);
        parent = fd;
    }
    return take_fd(&parent);
}

int debuginfod_cache_open(const char *path)
{
    char copy[DEBUGINFOD_CACHE_PATH_BYTES];
    struct stat st;
    int r = join_path(copy, path, "");
    if (r < 0)
        return r;
    _cleanup_close_ int fd = make_folders(copy);
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    return st.st_uid != geteuid() || (st.st_mode & S_IWOTH) ? -EPERM : take_fd(&fd);
}

int debuginfod_cache_find(int folder, const char *build_id)
{
    char path[256];
    struct stat st;
    if (snprintf(path, sizeof(path), "%s/" FILE_NAME, build_id) >= (int)sizeof(path))
        return -ENOENT;
    _cleanup_close_ int fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -ENOENT;
    if (st.st_size == 0)
        return time(NULL) - st.st_mtime < ABSENT_SECONDS ? -ENODATA : -ENOENT;
    return take_fd(&fd);
}

int debuginfod_cache_begin(int folder, const char *build_id, struct debuginfod_cache_entry *ret)
{
    struct debuginfod_cache_entry e = {.cache = folder, .build_id = build_id};
    if (mkdirat(folder, build_id, 0700) < 0 && errno != EEXIST)
        return -errno;
    e.folder = open_folder(folder, build_id);
    if (e.folder < 0)
        return e.folder;
    uint64_t number = 0; /* random instead of the PID: containers that share the cache may have equal PIDs */
    (void)!getrandom(&number, sizeof(number), GRND_NONBLOCK);
    snprintf(e.name, sizeof(e.name), FILE_NAME ".%llx", (unsigned long long)number);
    e.fd = openat(e.folder, e.name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (e.fd < 0) {
        const int r = -errno;
        close(e.folder);
        return r;
    }
    *ret = e;
    return 0;
}

static void close_entry(struct debuginfod_cache_entry *e)
{
    close(e->fd);
    close(e->folder);
    (void)unlinkat(e->cache, e->build_id, AT_REMOVEDIR); /* fails unless the directory is empty */
}

int debuginfod_cache_keep(struct debuginfod_cache_entry *e)
{
    int r = fchmod(e->fd, 0400) < 0 || renameat(e->folder, e->name, e->folder, FILE_NAME) < 0 ? -errno : 0;
    if (r < 0)
        (void)unlinkat(e->folder, e->name, 0);
    close_entry(e);
    return r;
}

void debuginfod_cache_drop(struct debuginfod_cache_entry *e)
{
    (void)unlinkat(e->folder, e->name, 0);
    close_entry(e);
}
