/* A listening Unix socket with a mode and a group, for the programs of this machine that may read the agent. */
#pragma once

#include <stddef.h>
#include <sys/stat.h>

#define LOCAL_SOCKET_WHY_BYTES 256

struct local_socket_options {
    const char *path; /* absolute */
    mode_t mode;
    const char *group; /* NULL: "sonde" if there is such a group */
};

struct local_socket {
    int fd;
    char path[108];
    dev_t device; /* this and the following: which file it is, and not a later one of its name */
    ino_t inode;
    struct timespec changed;
};

/* Makes the directory if only that is missing, replaces a socket that no program listens on, and listens. The socket
 * has its mode and group before the first client can connect. 0; -EADDRINUSE: a program listens there already; another
 * -errno. On failure `why` has the reason, without the path. A group that cannot be set is an error only if
 * `options->group` names it. */
int local_socket_open(const struct local_socket_options *options, struct local_socket *ret,
                      char why[LOCAL_SOCKET_WHY_BYTES]);

/* Removes the file, if it is still this socket's. Does not close `fd`. */
void local_socket_remove(const struct local_socket *s);
