/* Starts a command suspended; see child.h. The child blocks on a pipe until a byte arrives, then calls execvp. */
#include "base/child.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/sudo_user.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void run_child(char **command, const struct sudo_user *user, int release_fd, int error_fd)
{
    char byte;
    ssize_t n;
    do
        n = read(release_fd, &byte, 1);
    while (n < 0 && errno == EINTR);
    if (n != 1)
        _exit(127); /* the recording failed to start */
    signal(SIGPIPE, SIG_DFL);
    int error = -sudo_user_become(user);
    if (error == 0) {
        execvp(command[0], command);
        error = errno;
    }
    n = write(error_fd, &error, sizeof(error));
    _exit(n == sizeof(error) ? 127 : 126);
}

int child_prepare(struct child *c, const char *subcommand, char **command)
{
    int release[2], error[2];
    struct sudo_user user;
    if (sudo_user_find(&user) < 0)
        return log_errno(-EINVAL, "%s: %s cannot be run as the user of sudo: SUDO_UID and SUDO_GID", subcommand,
                         command[0]);
    if (pipe2(release, O_CLOEXEC) < 0)
        return -errno;
    if (pipe2(error, O_CLOEXEC) < 0) {
        int r = -errno;
        close(release[0]);
        close(release[1]);
        return r;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(release[1]);
        run_child(command, &user, release[0], error[1]);
    }
    int r = pid < 0 ? -errno : 0;
    close(release[0]);
    close(error[1]);
    if (r < 0) {
        close(release[1]);
        close(error[0]);
        return log_errno(r, "%s: the command cannot be started", subcommand);
    }
    *c = (struct child){
        .subcommand = subcommand, .name = command[0], .pid = pid, .release_fd = release[1], .error_fd = error[0]};
    return 0;
}

int child_release(struct child *c)
{
    if (write(c->release_fd, "", 1) != 1)
        return -errno;
    close(take_fd(&c->release_fd));
    int error = 0;
    ssize_t n = read(c->error_fd, &error, sizeof(error));
    return n == sizeof(error) ? log_errno(-error, "%s: %s cannot be executed", c->subcommand, c->name) : 0;
}

void child_end(struct child *c)
{
    if (c->release_fd >= 0)
        close(c->release_fd);
    if (c->error_fd >= 0)
        close(c->error_fd);
    if (c->pid > 0) {
        kill(c->pid, SIGTERM);
        waitpid(c->pid, NULL, 0);
    }
}

int child_exit_status(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
