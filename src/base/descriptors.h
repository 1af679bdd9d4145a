/* Passes file descriptors between processes with a message (SCM_RIGHTS, unix(7)), over a socket that preserves
 * message boundaries. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define DESCRIPTORS_MAX 2 /* per message */

struct descriptors {
    int fds[DESCRIPTORS_MAX]; /* -1: none; valid ones come first */
    bool lost;                /* on receipt: some were sent, but this process could not open more */
};

/* Sends `size` bytes and `with` (NULL: none), which remains the caller's. `flags` as in sendmsg(2); SIGPIPE is never
 * raised. Returns 0 or -errno. */
int descriptors_send(int socket, const void *data, size_t size, const struct descriptors *with, int flags);

/* Receives one message of at most `size` bytes. Descriptors received with it belong to the caller, even if the
 * message is invalid, and are close-on-exec. `flags` as in recvmsg(2). Returns the number of bytes, 0 when the other
 * end is closed, or -errno. */
ssize_t descriptors_receive(int socket, void *data, size_t size, struct descriptors *ret, int flags);

/* Closes the valid ones. For _cleanup_. */
void descriptors_close(struct descriptors *d);

/* Tests whether this process can open `count` more descriptors: 0, -EMFILE, -ENFILE, -ENOMEM. */
int descriptors_have_room(size_t count);
