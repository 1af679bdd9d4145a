/* sandbox.c: a confined process tries each forbidden operation. */
#include "base/sandbox.h"

#include "base/cleanup.h"
#include "base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

#define NO_FILTER 77 /* this kernel does not support filters */

static const struct sandbox_limits limits = {.data_bytes = 64 << 20, .cpu_seconds = 10};

/* Runs `attempt` confined; returns the number of the operation that succeeded, 0: none. Only the file `path` is passed
 * in on request. */
static int run_confined(int (*attempt)(const char *path), const char *path)
{
    int pair[2];
    const int parent = getpid();
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int listener = -1;
        if (sandbox_enter(&limits, parent, &listener) < 0)
            _exit(99);
        const struct descriptors with = {.fds = {listener, -1}};
        descriptors_send(pair[1], "", 1, &with, 0);
        if (listener < 0)
            _exit(NO_FILTER);
        close(listener);
        _exit(attempt(path));
    }
    close(pair[1]);
    char byte;
    struct descriptors with;
    assert_int_equal(descriptors_receive(pair[0], &byte, 1, &with, 0), 1);
    struct pollfd fds[] = {{.fd = with.fds[0], .events = POLLIN}, {.fd = pair[0], .events = POLLIN}};
    while (with.fds[0] >= 0 && poll(fds, 2, 20000) > 0 && fds[0].revents & POLLIN) {
        struct sandbox_open asked;
        if (sandbox_next_open(with.fds[0], &asked) < 0)
            continue;
        _cleanup_close_ int fd = strcmp(asked.path, path) == 0 ? open("/proc/self/comm", O_RDONLY) : -1;
        sandbox_answer_open(with.fds[0], &asked, fd < 0 ? -ENOENT : fd);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    descriptors_close(&with);
    close(pair[0]);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_FILTER) {
        print_message("no seccomp filter can be set\n");
        skip();
    }
    return WEXITSTATUS(status);
}

static int try_all(const char *path)
{
    (void)path;
    if (open("/etc/passwd", O_RDONLY) >= 0)
        return 1;
    if (open("/tmp/sandbox-test", O_WRONLY | O_CREAT, 0600) >= 0)
        return 2;
    if (socket(AF_INET, SOCK_STREAM, 0) >= 0)
        return 3;
    if (fork() >= 0)
        return 4;
    if (kill(getppid(), 0) == 0)
        return 5;
    if (execl("/bin/true", "true", NULL) == 0)
        return 6;
    return setuid(0) == 0 && getuid() == 0 ? 7 : 0;
}

static void test_confined_process_has_no_access(void **state)
{
    (void)state;
    assert_int_equal(run_confined(try_all, "/etc/passwd-"), 0);
}

static int read_given(const char *path)
{
    char text[64] = "";
    const int fd = open(path, O_RDONLY);
    return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 ? 0 : 1;
}

static void test_files_are_passed_by_the_parent(void **state)
{
    (void)state;
    assert_int_equal(run_confined(read_given, "/no/such/file/anywhere"), 0);
}

static int take_memory(const char *path)
{
    (void)path;
    void *much = mmap(NULL, 128 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return much == MAP_FAILED ? 0 : 1;
}

static void test_memory_is_bounded(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__)
    print_message("AddressSanitizer reserves more memory than any bound\n");
    skip();
#endif
    assert_int_equal(run_confined(take_memory, "/"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_confined_process_has_no_access),
        cmocka_unit_test(test_files_are_passed_by_the_parent),
        cmocka_unit_test(test_memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
