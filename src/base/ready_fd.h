/* The readiness protocol of --ready-fd: the program that starts Sonde passes the write end of a pipe, and reads
 * "ready
 * " from the other end once Sonde counts. */
#pragma once

/* 0, or -EBADF when `fd` is not open for writing. Makes it close-on-exec. */
int ready_fd_check(int fd);

/* Writes "ready
 * " to `*fd`, closes it and sets it to -1; does nothing when it is -1. A closed read end is not an error: the caller
 * ignores SIGPIPE. */
void ready_fd_notify(int *fd);
