/* Descriptors that travel between processes with a message (SCM_RIGHTS, unix(7)), over a socket that keeps
 * messages apart. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define DESCRIPTORS_MAX 2 /* with one message */

struct descriptors {
    int fds[DESCRIPTORS_MAX]; /* -1: none; those that are there come first */
    bool lost;                /* on receipt: some were sent and there was no room for them in this process */
};

/* Sends `size` bytes and `with`, NULL for none, which stays the caller's. `flags`: of sendmsg(2); a signal is
 * never raised. Returns 0 or -errno. */
int descriptors_send(int socket, const void *data, size_t size, const struct descriptors *with, int flags);

/* Receives one message of at most `size` bytes. What comes with it is the caller's, also where the message was
 * a wrong one, and closed by exec. `flags`: of recvmsg(2). Returns the bytes, 0 where nobody sends any more,
 * or -errno. */
ssize_t descriptors_receive(int socket, void *data, size_t size, struct descriptors *ret, int flags);

/* Closes what there is. For _cleanup_. */
void descriptors_close(struct descriptors *d);

/* Whether this process may open so many more: 0, -EMFILE, -ENFILE. */
int descriptors_have_room(size_t count);
