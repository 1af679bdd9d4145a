/* debuginfod.c and its cache: environment settings, server selection, and bounds over all transfers. Lying servers are
 * tested in tests/e2e/test_debuginfod.py. */
#include "resolve/symbols/debuginfod.h"

#include "resolve/symbols/debuginfod_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "../../emulated.h"

static const char one[] = "00112233445566778899", other[] = "aabbccddeeff00112233";

struct fixture {
    char folder[64], url[64];
    int listener;
    pid_t server;
};

/* Answers every request with 2000 zero bytes. */
_Noreturn static void serve(int listener)
{
    char asked[4096], content[2000] = "";
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 2000\r\nConnection: close\r\n\r\n";
    signal(SIGPIPE, SIG_IGN);
    for (;;) {
        const int fd = accept(listener, NULL, NULL);
        if (fd >= 0 && read(fd, asked, sizeof(asked)) > 0 && write(fd, head, strlen(head)) > 0)
            (void)!write(fd, content, sizeof(content));
        close(fd);
    }
}

static int setup(void **state)
{
    static struct fixture f;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    snprintf(f.folder, sizeof(f.folder), "/tmp/sonde-debuginfod-XXXXXX");
    assert_non_null(mkdtemp(f.folder));
    f.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f.listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(f.listener, 8), 0);
    assert_int_equal(getsockname(f.listener, (struct sockaddr *)&address, &size), 0);
    snprintf(f.url, sizeof(f.url), "http://a:b@127.0.0.1:%d/", ntohs(address.sin_port));
    f.server = fork();
    if (f.server == 0)
        serve(f.listener);
    setenv("no_proxy", "*", 1);
    *state = &f;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st, (void)type, (void)where;
    return remove(path);
}

static int teardown(void **state)
{
    const struct fixture *f = *state;
    kill(f->server, SIGKILL);
    waitpid(f->server, NULL, 0);
    close(f->listener);
    return nftw(f->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static struct debuginfod_options options_of(const struct fixture *f)
{
    return (struct debuginfod_options){.urls = f->url,
                                       .cache_path = f->folder,
                                       .file_max_bytes = 10000,
                                       .all_max_bytes = 10000,
                                       .stall_seconds = 60,
                                       .file_max_seconds = 60,
                                       .all_max_seconds = 60,
                                       .stop_fd = -1};
}

static void test_lying_server_is_not_queried_again(void **state)
{
    const struct debuginfod_options options = options_of(*state);
    struct debuginfod_stats stats;
    const char *why, *url;
    _cleanup_(debuginfod_freep) struct debuginfod *d = NULL;
    assert_int_equal(debuginfod_new(&options, &d), 0);
    assert_null(debuginfod_failure(d, 0, &why));
    for (int i = 0; i < 2; i++)
        assert_int_equal(debuginfod_find(d, one), -ENOENT);
    url = debuginfod_failure(d, 0, &why);
    assert_non_null(url);
    assert_null(strstr(url, "a:b"));
    assert_non_null(strstr(why, "not an ELF file"));
    assert_null(debuginfod_failure(d, 1, &why));
    debuginfod_stats(d, &stats);
    assert_int_equal(stats.unasked, 2);
    assert_int_equal(stats.absent + stats.fetched, 0);
}

static void test_bounds_cover_all_transfers(void **state)
{
    struct debuginfod_stats stats;
    const char *why;
    for (int turn = 0; turn < 3; turn++) {
        struct debuginfod_options options = options_of(*state);
        _cleanup_(debuginfod_freep) struct debuginfod *d = NULL;
        if (turn == 0)
            options.all_max_bytes = 1000;
        else if (turn == 1)
            options.all_max_seconds = 0;
        else
            options.file_max_bytes = 1000;
        assert_int_equal(debuginfod_new(&options, &d), 0);
        assert_int_equal(debuginfod_find(d, one), -ENOENT);
        assert_int_equal(debuginfod_find(d, other), -ENOENT);
        debuginfod_stats(d, &stats);
        assert_int_equal(stats.unasked, turn == 2 ? 0 : 2);
        assert_int_equal(stats.too_large, turn == 2 ? 2 : 0);
        assert_null(debuginfod_failure(d, 0, &why)); /* that is not the server's fault */
    }
}

static void test_invalid_build_ids_are_refused(void **state)
{
    static const char *const wrong[] = {"", "ab", "abc", "../../etc/passwd", "AABBCCDD", "aabbccd/", "aabb ccdd"};
    const struct debuginfod_options options = options_of(*state);
    _cleanup_(debuginfod_freep) struct debuginfod *d = NULL;
    assert_int_equal(debuginfod_new(&options, &d), 0);
    for (size_t i = 0; i < array_size(wrong); i++)
        assert_int_equal(debuginfod_find(d, wrong[i]), -EINVAL);
}

static void test_stop_fd_cancels_a_transfer(void **state)
{
    struct debuginfod_options options = options_of(*state);
    _cleanup_close_ int stop = eventfd(1, EFD_CLOEXEC);
    _cleanup_(debuginfod_freep) struct debuginfod *d = NULL;
    const struct fixture *f = *state;
    kill(f->server, SIGSTOP); /* it accepts connections and does not answer */
    options.stop_fd = stop;
    assert_int_equal(debuginfod_new(&options, &d), 0);
    assert_int_equal(debuginfod_find(d, one), -ECANCELED);
    kill(f->server, SIGCONT);
}

static void test_invalid_servers_are_refused(void **state)
{
    struct debuginfod_options options = options_of(*state);
    _cleanup_(debuginfod_freep) struct debuginfod *d = NULL;
    const char *why;
    options.urls = "file:///srv\tima:enforcing http://signed.example/  ima:ignore nonsense\n";
    assert_int_equal(debuginfod_new(&options, &d), 0);
    assert_string_equal(debuginfod_failure(d, 0, &why), "file:///srv");
    assert_string_equal(debuginfod_failure(d, 1, &why), "http://signed.example");
    assert_non_null(strstr(why, "signed"));
    assert_string_equal(debuginfod_failure(d, 2, &why), "nonsense");
    assert_null(debuginfod_failure(d, 3, &why));
    assert_int_equal(debuginfod_find(d, one), -ENOENT);
}

static void test_environment_settings(void **state)
{
    struct debuginfod_options options;
    (void)state;
    unsetenv("DEBUGINFOD_URLS");
    assert_int_equal(debuginfod_options_from_environment(&options), -ENOENT);
    setenv("DEBUGINFOD_URLS", " \t ", 1);
    assert_int_equal(debuginfod_options_from_environment(&options), -ENOENT);
    setenv("DEBUGINFOD_URLS", "http://x", 1);
    setenv("DEBUGINFOD_TIMEOUT", "7", 1);
    setenv("DEBUGINFOD_MAXSIZE", "12345", 1);
    setenv("DEBUGINFOD_MAXTIME", "-1", 1);
    assert_int_equal(debuginfod_options_from_environment(&options), 0);
    assert_int_equal(options.stall_seconds, 7);
    assert_int_equal(options.file_max_bytes, 12345);
    assert_int_equal(options.file_max_seconds, 120);
    setenv("DEBUGINFOD_TIMEOUT", "0", 1);
    setenv("DEBUGINFOD_MAXTIME", "99999999999999999999", 1);
    assert_int_equal(debuginfod_options_from_environment(&options), 0);
    assert_int_equal(options.stall_seconds, 30);
    assert_int_equal(options.file_max_seconds, 120);
}

/* The path to the cache is opened directory by directory, and qemu-user redirects an opened `/` to its own library
 * root. */
static void skip_if_root_is_emulated(void)
{
    if (is_emulated()) {
        print_message("runs under qemu-user, whose / is another\n");
        skip();
    }
}

static void test_cache_directory(void **state)
{
    skip_if_root_is_emulated();
    const struct fixture *f = *state;
    char path[DEBUGINFOD_CACHE_PATH_BYTES], expected[DEBUGINFOD_CACHE_PATH_BYTES];
    unsetenv("DEBUGINFOD_CACHE_PATH");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", f->folder, 1);
    assert_int_equal(debuginfod_cache_path(path), 0);
    snprintf(expected, sizeof(expected), "%s/.cache/debuginfod_client", f->folder);
    assert_string_equal(path, expected);
    _cleanup_close_ int fd = debuginfod_cache_open(path);
    struct stat st;
    assert_true(fd >= 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(debuginfod_cache_open(path), -EPERM);
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    assert_int_equal(debuginfod_cache_path(path), 0);
    assert_string_equal(path, "/xdg/debuginfod_client");
    snprintf(expected, sizeof(expected), "%s/.debuginfod_client_cache", f->folder);
    assert_int_equal(mkdir(expected, 0700), 0);
    assert_int_equal(debuginfod_cache_path(path), 0);
    assert_string_equal(path, expected);
    setenv("DEBUGINFOD_CACHE_PATH", "/configured", 1);
    assert_int_equal(debuginfod_cache_path(path), 0);
    assert_string_equal(path, "/configured");
    setenv("DEBUGINFOD_CACHE_PATH", "relative", 1);
    assert_int_equal(debuginfod_cache_path(path), -ENOENT);
}

static void test_cache_entries(void **state)
{
    skip_if_root_is_emulated();
    const struct fixture *f = *state;
    struct debuginfod_cache_entry entry;
    char path[256];
    _cleanup_close_ int folder = debuginfod_cache_open(f->folder);
    assert_int_equal(debuginfod_cache_find(folder, one), -ENOENT);
    assert_int_equal(debuginfod_cache_begin(folder, one, &entry), 0);
    debuginfod_cache_drop(&entry);
    snprintf(path, sizeof(path), "%s/%s", f->folder, one);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(debuginfod_cache_begin(folder, one, &entry), 0);
    assert_int_equal(debuginfod_cache_keep(&entry), 0); /* no process holds it */
    assert_int_equal(debuginfod_cache_find(folder, one), -ENODATA);
    assert_int_equal(debuginfod_cache_begin(folder, one, &entry), 0);
    assert_int_equal(write(entry.fd, "x", 1), 1);
    assert_int_equal(debuginfod_cache_keep(&entry), 0);
    _cleanup_close_ int fd = debuginfod_cache_find(folder, one);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lying_server_is_not_queried_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bounds_cover_all_transfers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_invalid_build_ids_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stop_fd_cancels_a_transfer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_invalid_servers_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_environment_settings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cache_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cache_entries, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
