/* A command that a subcommand observes: forked at once, executed only when the recording has started. */
#pragma once

#include <sys/types.h>

struct child {
    const char *subcommand; /* "record", for messages; borrowed */
    const char *name;       /* as given by the user; borrowed */
    pid_t pid;              /* 0: none */
    int release_fd;         /* writing a byte lets the child call execvp */
    int error_fd;           /* delivers the errno of a failed exec; end of file: exec succeeded */
};

#define CHILD_NONE                                                                                                     \
    {                                                                                                                  \
        .release_fd = -1, .error_fd = -1                                                                               \
    }

/* Forks the child. `command` ends with NULL and is looked up in PATH. It runs as the user of sudo, if there is one
 * (sudo_user.h). Returns 0, or -errno after logging. */
int child_prepare(struct child *c, const char *subcommand, char **command);
/* Lets the child execute its command. Returns 0 once exec succeeded, or -errno (an exec failure is logged). */
int child_release(struct child *c);
/* Closes the descriptors; terminates a child that still runs (SIGTERM) and reaps it. For _cleanup_. */
void child_end(struct child *c);
/* A status of waitpid, as shells report it. */
int child_exit_status(int status);
