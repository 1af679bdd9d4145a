/* local_socket.c: whose socket is replaced, whose file is left alone, and which rights it has. */
#include "serve/local_socket.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char folder[64], path[108];
    struct local_socket_options options;
    char why[LOCAL_SOCKET_WHY_BYTES];
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    snprintf(f->folder, sizeof(f->folder), "/tmp/sonde-socket-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->path, sizeof(f->path), "%s/run/sonde.sock", f->folder);
    f->options = (struct local_socket_options){.path = f->path, .mode = 0660};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char directory[80];
    unlink(f->path);
    snprintf(directory, sizeof(directory), "%s/run", f->folder);
    rmdir(directory);
    rmdir(f->folder);
    free(f);
    return 0;
}

static bool accepts(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(address.sun_path, path, strlen(path) + 1);
    return connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
}

static void stop(const struct local_socket *s)
{
    local_socket_remove(s);
    close(s->fd);
}

static void test_the_directory_is_made_and_the_rights_do_not_depend_on_the_umask(void **state)
{
    struct fixture *f = *state;
    struct local_socket s;
    struct stat st;
    const mode_t before = umask(0077);
    assert_int_equal(local_socket_open(&f->options, &s, f->why), 0);
    umask(before);
    assert_int_equal(stat(f->path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 07777, 0660);
    assert_true(accepts(f->path));
    *strrchr(f->path, '/') = '\0';
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    f->path[strlen(f->path)] = '/';
    stop(&s);
    assert_int_equal(access(f->path, F_OK), -1);
}

static void test_a_socket_that_no_program_listens_on_is_replaced(void **state)
{
    struct fixture *f = *state;
    struct local_socket gone, s;
    assert_int_equal(local_socket_open(&f->options, &gone, f->why), 0);
    close(gone.fd); /* as after a crash: the file stays */
    assert_false(accepts(f->path));
    assert_int_equal(local_socket_open(&f->options, &s, f->why), 0);
    assert_true(accepts(f->path));
    local_socket_remove(&gone); /* no longer its own */
    assert_true(accepts(f->path));
    stop(&s);
}

static void test_a_socket_that_a_program_listens_on_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct local_socket first, second;
    assert_int_equal(local_socket_open(&f->options, &first, f->why), 0);
    assert_int_equal(local_socket_open(&f->options, &second, f->why), -EADDRINUSE);
    assert_non_null(strstr(f->why, "another program"));
    assert_true(accepts(f->path));
    stop(&first);
}

static void test_other_files_and_symbolic_links_are_left_alone(void **state)
{
    struct fixture *f = *state;
    struct local_socket s;
    struct stat st;
    char other[108];
    snprintf(f->path, sizeof(f->path), "%s/other", f->folder);
    close(open(f->path, O_CREAT | O_CLOEXEC | O_WRONLY, 0600));
    assert_int_equal(local_socket_open(&f->options, &s, f->why), -EEXIST);
    assert_int_equal(lstat(f->path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    snprintf(other, sizeof(other), "%s", f->path);
    snprintf(f->path, sizeof(f->path), "%s/link", f->folder);
    assert_int_equal(symlink(other, f->path), 0);
    assert_int_equal(local_socket_open(&f->options, &s, f->why), -EEXIST);
    assert_int_equal(stat(other, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    unlink(other);
}

static void test_a_group_that_is_asked_for_must_exist(void **state)
{
    struct fixture *f = *state;
    struct local_socket s;
    struct stat st;
    f->options.group = "no-such-group";
    assert_int_equal(local_socket_open(&f->options, &s, f->why), -ENOENT);
    assert_non_null(strstr(f->why, "no-such-group"));
    const struct group *own = getgrgid(getegid());
    if (!own)
        skip();
    f->options.group = own->gr_name;
    f->options.mode = 0600;
    assert_int_equal(local_socket_open(&f->options, &s, f->why), 0);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_gid, getegid());
    assert_int_equal(st.st_mode & 07777, 0600);
    stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_directory_is_made_and_the_rights_do_not_depend_on_the_umask, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_socket_that_no_program_listens_on_is_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_socket_that_a_program_listens_on_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_files_and_symbolic_links_are_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_group_that_is_asked_for_must_exist, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
