/* A command of the user's, started but held before its first instruction until the recording is on. */
#pragma once

#include <sys/types.h>

struct child {
    const char *name; /* as it was asked for; borrowed */
    pid_t pid;        /* 0: none */
    int release_fd;   /* writing a byte lets it go */
    int error_fd;     /* tells the errno of a failed exec, or closes */
};

#define CHILD_NONE                                                                                                     \
    {                                                                                                                  \
        .release_fd = -1, .error_fd = -1                                                                               \
    }

/* `command` ends with NULL; looked up in PATH. */
int child_prepare(struct child *c, char **command);
/* Lets it go; -errno and a message when it could not be executed. */
int child_release(struct child *c);
/* Ends a child that still runs (SIGTERM) and waits for it; for _cleanup_. */
void child_end(struct child *c);
