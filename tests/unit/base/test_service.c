/* service.c: what a service manager receives. */
#include "base/service.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static const char path[] = "notify-test.sock"; /* in the folder where the test runs */

static int new_manager(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    unlink(path);
    memcpy(address.sun_path, path, sizeof(path));
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void expect_state(int manager, const char *state)
{
    char text[128] = "";
    const ssize_t n = recv(manager, text, sizeof(text) - 1, 0);
    assert_int_equal(n, strlen(state));
    assert_string_equal(text, state);
}

static size_t count_descriptors(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void test_states_are_sent_over_one_descriptor(void **state)
{
    (void)state;
    int manager = new_manager();
    setenv("NOTIFY_SOCKET", path, 1);
    const size_t before = count_descriptors();
    for (int i = 0; i < 3; i++) {
        service_notify(SERVICE_ALIVE);
        expect_state(manager, "WATCHDOG=1");
        assert_int_equal(count_descriptors(), before + 1);
    }
    close(manager); /* it starts again, at the same path */
    service_notify(SERVICE_ALIVE);
    manager = new_manager();
    service_notify(SERVICE_STOPPING);
    expect_state(manager, "STOPPING=1");
    close(manager);
    unlink(path);
}

static void test_nothing_is_sent_without_a_manager(void **state)
{
    (void)state;
    unsetenv("NOTIFY_SOCKET");
    service_notify(SERVICE_READY);
    setenv("NOTIFY_SOCKET", "/nowhere/notify", 1);
    service_notify(SERVICE_READY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states_are_sent_over_one_descriptor),
        cmocka_unit_test(test_nothing_is_sent_without_a_manager),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
