/* A listening Unix socket with a mode and a group; see local_socket.h. */
#include "serve/local_socket.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define DEFAULT_GROUP "sonde"
#define BACKLOG       64
#define NO_GROUP      ((gid_t)-1)

static int give_reason(int error, char why[LOCAL_SOCKET_WHY_BYTES], const char *what)
{
    snprintf(why, LOCAL_SOCKET_WHY_BYTES, "%s: %s", what, strerror(-error));
    return error;
}

/* The service manager may have set a umask that would lock the group out of the directory. */
static int make_directory(const char *path)
{
    char directory[sizeof(((struct local_socket *)0)->path)];
    snprintf(directory, sizeof(directory), "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash == directory)
        return 0;
    *slash = '\0';
    if (mkdir(directory, 0755) < 0)
        return errno == EEXIST ? 0 : -errno;
    return chmod(directory, 0755) < 0 ? -errno : 0;
}

/* 0: no program listens on it, and it is removed. */
static int remove_stale(const struct sockaddr_un *address)
{
    struct stat st;
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || lstat(address->sun_path, &st) < 0)
        return -errno;
    if (!S_ISSOCK(st.st_mode))
        return -EEXIST;
    if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN)
        return -EADDRINUSE;
    if (errno != ECONNREFUSED)
        return -errno;
    return unlink(address->sun_path) < 0 ? -errno : 0;
}

/* NO_GROUP: the group of the process. */
static int find_group(const char *name, gid_t *ret)
{
    errno = 0;
    const struct group *group = getgrnam(name ? name : DEFAULT_GROUP);
    *ret = group ? group->gr_gid : NO_GROUP;
    return group || !name ? 0 : -ENOENT;
}

/* No client can connect before listen(): the rights are never wider than the options say. */
static int set_rights(const struct local_socket_options *o, gid_t group, char why[LOCAL_SOCKET_WHY_BYTES])
{
    if (group != NO_GROUP && lchown(o->path, (uid_t)-1, group) < 0) {
        if (o->group)
            return give_reason(-errno, why, "its group cannot be set");
        log_warning("%s: only root can connect to it: the group %s cannot be set (%s; it needs CAP_CHOWN)", o->path,
                    DEFAULT_GROUP, strerror(errno));
        return 0;
    }
    if (fchmodat(AT_FDCWD, o->path, o->mode, AT_SYMLINK_NOFOLLOW) < 0)
        return give_reason(-errno, why, "its mode cannot be set");
    return 0;
}

int local_socket_open(const struct local_socket_options *o, struct local_socket *ret, char why[LOCAL_SOCKET_WHY_BYTES])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat st;
    gid_t group;
    if (strlen(o->path) >= sizeof(address.sun_path))
        return give_reason(-ENAMETOOLONG, why, "the path");
    memcpy(address.sun_path, o->path, strlen(o->path) + 1);
    int r = find_group(o->group, &group);
    if (r < 0) {
        snprintf(why, LOCAL_SOCKET_WHY_BYTES, "there is no group '%.64s'", o->group);
        return r;
    }
    r = make_directory(o->path);
    if (r < 0)
        return give_reason(r, why, "its directory cannot be made");
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || fchmod(fd, 0600) < 0) /* which bind gives to the file */
        return give_reason(-errno, why, "no socket");
    r = bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
    if (r == -EADDRINUSE)
        r = remove_stale(&address) ?: bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
    if (r == -EADDRINUSE)
        return give_reason(r, why, "another program, perhaps another agent, listens there");
    if (r == -EEXIST)
        return give_reason(r, why, "it is a file, but no socket");
    if (r < 0)
        return give_reason(r, why, "it cannot be made");
    r = set_rights(o, group, why);
    if (r == 0 && (listen(fd, BACKLOG) < 0 || lstat(o->path, &st) < 0))
        r = give_reason(-errno, why, "cannot listen");
    if (r < 0) {
        unlink(o->path);
        return r;
    }
    *ret = (struct local_socket){.fd = take_fd(&fd), .device = st.st_dev, .inode = st.st_ino, .changed = st.st_ctim};
    memcpy(ret->path, address.sun_path, sizeof(ret->path));
    return 0;
}

void local_socket_remove(const struct local_socket *s)
{
    struct stat st;
    if (lstat(s->path, &st) == 0 && st.st_dev == s->device && st.st_ino == s->inode &&
        st.st_ctim.tv_sec == s->changed.tv_sec && st.st_ctim.tv_nsec == s->changed.tv_nsec)
        unlink(s->path);
}
