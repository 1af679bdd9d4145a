/* The helper process: it opens the right file, reads its contents, and a file that never answers costs one wait. A
 * FIFO without a writer stands in for a dead file system. */
#include "resolve/files/file_opener.h"

#include "base/turn_time.h"

#include "resolve/elf/elf.h"
#include "resolve/proc/maps.h"
#include "resolve/remote/file_wait.h"
#include "resolve/remote/remote_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../emulated.h"

#define HOUR_NS (3600 * 1000000000ull)

static struct file_opener *opener;
static char folder[64];

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/sonde-opener-XXXXXX");
    return mkdtemp(folder) ? file_opener_new(&opener) : -1;
}

static int teardown(void **state)
{
    (void)state;
    turn_time_end();
    turn_time_resume();
    file_opener_free(opener);
    return rmdir(folder);
}

static struct file_opener_stats opener_stats(void)
{
    struct file_opener_stats f;
    file_opener_stats(opener, &f);
    return f;
}

static void need_openat2(void)
{
    if (!is_emulated())
        return;
    print_message("runs under qemu-user, which may have no openat2\n");
    skip();
}

static void test_own_program_is_opened(void **state)
{
    (void)state;
    need_openat2();
    char path[256];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    assert_true(n > 0);
    path[n] = '\0';
    struct stat st, opened;
    assert_int_equal(stat(path, &st), 0);
    const struct object_sight sight = {
        .path = path, .device = st.st_dev, .inode = st.st_ino, .pids = {(uint32_t)getpid()}, .pid_count = 1};
    struct object_identity identity;
    _cleanup_close_ int fd = file_opener_sight(opener, &sight, &identity);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &opened), 0);
    assert_int_equal(opened.st_ino, st.st_ino);
    assert_int_equal(identity.inode, st.st_ino);
    assert_true(identity.is_elf);

    /* The same over the socket, whatever file system it is on. */
    _cleanup_close_ int remote = file_opener_reopen(opener, fd, &identity);
    assert_true(remote_file_is(remote));
    assert_false(remote_file_is(fd));
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    assert_int_equal(elf_open(remote, &f), 0);
    take_fd(&remote);
    assert_int_equal(elf_size(f), st.st_size);
    _cleanup_close_ int near = open(path, O_RDONLY | O_CLOEXEC);
    for (uint64_t at = 1, size = 1; at + size < (uint64_t)st.st_size; at = at * 3 + 7, size = size * 2 % 90001) {
        _cleanup_free_ char *a = malloc(size), *b = malloc(size);
        assert_int_equal(pread(near, a, size, (off_t)at), size);
        assert_int_equal(elf_read(f, at, b, size), 0);
        assert_memory_equal(a, b, size);
    }
    char byte;
    assert_int_equal(elf_read(f, (uint64_t)st.st_size, &byte, 1), -EIO);
    assert_int_equal(elf_error(f), 0);
}

static void test_missing_files(void **state)
{
    (void)state;
    need_openat2();
    assert_int_equal(file_opener_in_own_root(opener, "/nowhere/at/all"), -ENOENT);
    assert_int_equal(file_opener_in_own_root(opener, "/dev/null"), -ENOENT);
    char path[FILE_PATH_BYTES + 1];
    memset(path, '/', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(file_opener_in_own_root(opener, path), -ENAMETOOLONG);
}

static void test_process_files_are_read(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf text = {0}, cut = {0};
    _cleanup_close_ int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(file_opener_read_proc(opener, self, 1, "smaps", 1 << 20, &text), 0);
    assert_non_null(strstr(text.data, "[stack]"));
    assert_int_equal(file_opener_read_proc(opener, self, 1, "smaps", 20, &cut), 0);
    assert_int_equal(cut.size, 20);
    assert_memory_equal(cut.data, text.data, 20);
    assert_true(file_opener_read_proc(opener, self, 1, "no-such-file", 20, &cut) == -ENOENT);
}

static bool next_mapping(struct cursor *text, struct maps_line *ret)
{
    do {
        if (!maps_next_executable(text, ret))
            return false;
    } while (ret->path_bytes == 10 &&
             memcmp(ret->path, "[vsyscall]", 10) == 0); /* listed for every process, and part of none */
    return true;
}

/* The executable mappings are the same, whether queried from the kernel or parsed from all of its text. */
static void test_executable_mappings(void **state)
{
    (void)state;
    if (is_emulated()) {
        print_message("runs under qemu-user: /proc shows the emulator's mappings\n");
        skip();
    }
    char odd[120];
    snprintf(odd, sizeof(odd), "%s/an odd\nname (deleted)", folder);
    _cleanup_close_ int fd = open(odd, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, 8192), 0);
    void *file = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 4096);
    void *generated = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(file != MAP_FAILED && generated != MAP_FAILED);
    unlink(odd);
    _cleanup_buf_ struct buf asked = {0}, text = {0};
    _cleanup_close_ int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(file_opener_read_proc(opener, self, 1, "maps", 1 << 20, &asked), 0);
    assert_int_equal(buf_read_file(&text, "/proc/self/maps", 1 << 20), 0);
    struct cursor a = cursor_make(asked.data, asked.size), b = cursor_make(text.data, text.size);
    struct maps_line of_asked, of_text;
    size_t odd_names = 0;
    while (next_mapping(&b, &of_text)) {
        assert_true(next_mapping(&a, &of_asked));
        assert_true(of_asked.start == of_text.start && of_asked.end == of_text.end);
        assert_true(of_asked.file_offset == of_text.file_offset && of_asked.inode == of_text.inode);
        assert_true(of_asked.device_major == of_text.device_major && of_asked.device_minor == of_text.device_minor);
        assert_int_equal(of_asked.path_bytes, of_text.path_bytes);
        assert_memory_equal(of_asked.path, of_text.path, of_text.path_bytes);
        odd_names += memmem(of_text.path, of_text.path_bytes, "an odd\\012name (deleted) (deleted)", 33) != NULL;
    }
    assert_false(next_mapping(&a, &of_asked));
    assert_int_equal(odd_names, 1);
    munmap(file, 4096);
    munmap(generated, 4096);
}

static void test_file_that_never_answers(void **state)
{
    (void)state;
    char path[80];
    snprintf(path, sizeof(path), "%s/fifo", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    _cleanup_close_ int directory = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_buf_ struct buf text = {0};
    assert_int_equal(file_opener_read_proc(opener, directory, 7, "fifo", 100, &text), -ETIMEDOUT);
    assert_int_equal(opener_stats().timed_out, 1);
    for (int i = 0; i < 100; i++)
        assert_int_equal(file_opener_read_proc(opener, directory, 7, "fifo", 100, &text), -ETIMEDOUT);
    assert_int_equal(opener_stats().timed_out, 1);
    assert_int_equal(opener_stats().refused, 100);
    assert_int_equal(opener_stats().backed_off, 1);

    /* Other files are answered meanwhile. */
    _cleanup_close_ int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(file_opener_read_proc(opener, self, 8, "stat", 100, &text), 0);

    /* It answers again: pread of a FIFO is an error, but an answer. */
    _cleanup_close_ int writer = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(writer >= 0);
    int r;
    do
        r = file_opener_read_proc(opener, directory, 7, "fifo", 100, &text);
    while (r == -ETIMEDOUT); /* until the late answer arrives */
    assert_int_equal(r, -ESPIPE);
    assert_int_equal(opener_stats().backed_off, 0);
    unlink(path);
}

static void test_dozens_of_files_that_never_answer(void **state)
{
    (void)state;
    enum { DEAD = 3 };
    char path[80];
    _cleanup_close_ int directory = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_buf_ struct buf text = {0};
    snprintf(path, sizeof(path), "%s/fifo", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    for (uint32_t i = 0; i < DEAD; i++)
        assert_int_equal(file_opener_read_proc(opener, directory, i + 1, "fifo", 100, &text), -ETIMEDOUT);
    assert_int_equal(opener_stats().timed_out, DEAD);
    assert_int_equal(opener_stats().backed_off, DEAD);
    /* And it still terminates (teardown). */
    unlink(path);
}

static void test_unresponsive_mount_is_suspended(void **state)
{
    (void)state;
    struct object_identity identity = {.mount_id = 123456789};
    _cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    _cleanup_close_ int before = file_opener_reopen(opener, fd, &identity);
    assert_true(before >= 0);
    file_opener_report_timeout(opener, 123456789);
    assert_int_equal(file_opener_reopen(opener, fd, &identity), -ETIMEDOUT);
    identity.mount_id = 987654321;
    _cleanup_close_ int other = file_opener_reopen(opener, fd, &identity);
    assert_true(other >= 0);
}

/* Of a helper that was started; 0: this kernel does not list children. */
static pid_t helper_pid(void)
{
    need_openat2();
    assert_int_equal(file_opener_in_own_root(opener, "/nowhere"), -ENOENT);
    char name[64];
    snprintf(name, sizeof(name), "/proc/self/task/%d/children", getpid());
    _cleanup_buf_ struct buf text = {0};
    if (buf_read_file(&text, name, 4096) == 0 && text.size) {
        const char *newest = text.data; /* earlier ones belong to previous tests and are slow to exit */
        for (const char *at = text.data; *at; at++)
            newest = at[0] == ' ' && at[1] ? at + 1 : newest;
        return (pid_t)strtol(newest, NULL, 10);
    }
    print_message("skipped: this kernel does not list children\n");
    return 0;
}

struct starving {
    pid_t pid;
    const char *fifo; /* written to at the end; NULL: none */
};

/* Returns when it has stopped: the signal is only queued if the helper runs on another CPU. */
static void stop_helper(pid_t pid)
{
    siginfo_t info;
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT), 0);
}

/* The helper gets no CPU time for a while: it is stopped, as if other tasks took all CPU time. */
static void *starve(void *arg)
{
    const struct starving *s = arg;
    usleep(s->fifo ? 300000 : 0); /* otherwise it is stopped already */
    kill(s->pid, SIGSTOP);
    usleep(2500000);
    int writer = s->fifo ? open(s->fifo, O_RDWR | O_CLOEXEC) : -1;
    kill(s->pid, SIGCONT);
    return (void *)(intptr_t)writer;
}

static void test_starved_helper_is_waited_for(void **state)
{
    (void)state;
    struct starving s = {.pid = helper_pid()};
    if (!s.pid)
        skip();
    _cleanup_close_ int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_buf_ struct buf text = {0};
    pthread_t thread;
    stop_helper(s.pid);
    assert_int_equal(pthread_create(&thread, NULL, starve, &s), 0);
    assert_int_equal(file_opener_read_proc(opener, self, 1, "maps", 1 << 20, &text), 0);
    pthread_join(thread, NULL);

    /* And in the middle of an answer. */
    char path[80];
    snprintf(path, sizeof(path), "%s/fifo", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    _cleanup_close_ int directory = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    void *writer;
    s.fifo = path;
    assert_int_equal(pthread_create(&thread, NULL, starve, &s), 0);
    assert_int_equal(file_opener_read_proc(opener, directory, 7, "fifo", 100, &text), -ESPIPE);
    pthread_join(thread, &writer);
    close((int)(intptr_t)writer);
    unlink(path);
    assert_int_equal(opener_stats().timed_out, 0);
}

/* A helper without CPU time costs one wait, until it gets some. */
static void test_starved_helper_delays_one_turn(void **state)
{
    (void)state;
    enum { ASKED = 20 };
    const pid_t pid = helper_pid();
    if (!pid)
        skip();
    _cleanup_close_ int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_buf_ struct buf text = {0};
    const uint64_t asked = opener_stats().requests;
    stop_helper(pid);
    for (int turn = 0; turn < 3; turn++) {
        turn_time_begin(HOUR_NS, HOUR_NS);
        for (uint32_t i = 0; i < ASKED; i++)
            assert_int_equal(file_opener_read_proc(opener, self, i + 1, "maps", 1 << 20, &text), -EAGAIN);
    }
    assert_int_equal(opener_stats().requests, asked + 1);
    assert_int_equal(opener_stats().refused, 3 * ASKED);
    assert_int_equal(opener_stats().timed_out, 0);
    assert_int_equal(opener_stats().backed_off, 0);

    assert_int_equal(kill(pid, SIGCONT), 0);
    int r;
    do
        r = file_opener_read_proc(opener, self, 1, "maps", 1 << 20, &text);
    while (r == -EAGAIN); /* until it has run again */
    assert_int_equal(r, 0);
    assert_true(text.size > 0);
}

static void expect_no_request(int proc_fd)
{
    _cleanup_buf_ struct buf text = {0};
    const struct file_opener_stats before = opener_stats();
    assert_int_equal(file_opener_read_proc(opener, proc_fd, 1, "maps", 1 << 20, &text), -EAGAIN);
    assert_int_equal(opener_stats().requests, before.requests);
    assert_int_equal(opener_stats().refused, before.refused + 1);
}

static void test_turn_without_time_requests_nothing(void **state)
{
    (void)state;
    _cleanup_close_ int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_buf_ struct buf text = {0};
    turn_time_begin(HOUR_NS, 0);
    expect_no_request(self);
    turn_time_begin(HOUR_NS, HOUR_NS);
    turn_time_interrupt();
    expect_no_request(self);
    turn_time_resume();
    assert_int_equal(file_opener_read_proc(opener, self, 1, "maps", 1 << 20, &text), 0);
}

static void *interrupt(void *arg)
{
    (void)arg;
    turn_time_interrupt();
    return NULL;
}

/* Without the interruption, this wait would last for weeks. */
static void test_interruption_ends_a_wait(void **state)
{
    (void)state;
    int pair[2];
    pthread_t thread;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(pthread_create(&thread, NULL, interrupt, NULL), 0);
    assert_int_equal(file_wait(pair[0], 0, UINT_MAX / 2), -EBUSY);
    pthread_join(thread, NULL);
    close(pair[0]);
    close(pair[1]);
}

/* The maximum number of files: the rest is left for the next turn. Each of them costs a second. */
static void test_dead_files_delay_a_turn_by_a_bound(void **state)
{
    (void)state;
    enum { DEAD = 8, TURN_MAX = 3 };
    char path[80];
    _cleanup_close_ int directory = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_buf_ struct buf text = {0};
    snprintf(path, sizeof(path), "%s/fifo", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    turn_time_begin(HOUR_NS, TURN_MAX * 1000000000ull);
    for (uint32_t i = 0; i < DEAD; i++) {
        int r = file_opener_read_proc(opener, directory, i + 1, "fifo", 100, &text);
        assert_true(r == -ETIMEDOUT || r == -EAGAIN);
    }
    const uint64_t dead = opener_stats().timed_out;
    assert_true(dead <= TURN_MAX);
    turn_time_end();
    int r;
    do
        r = file_opener_read_proc(opener, directory, DEAD, "fifo", 100, &text);
    while (r == -EAGAIN);
    assert_int_equal(r, -ETIMEDOUT);
    assert_int_equal(opener_stats().timed_out, dead + 1);
    unlink(path);
}

static void test_killed_helper_is_replaced(void **state)
{
    (void)state;
    need_openat2();
    const pid_t pid = helper_pid();
    if (!pid)
        skip();
    assert_int_equal(kill(pid, SIGKILL), 0);
    int r;
    do
        r = file_opener_in_own_root(opener, "/nowhere");
    while (r == -EAGAIN || r == -ETIMEDOUT); /* requested from the helper that was just exiting */
    assert_int_equal(r, -ENOENT);
    assert_int_equal(opener_stats().starts, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_own_program_is_opened),
        TEST(test_missing_files),
        TEST(test_process_files_are_read),
        TEST(test_executable_mappings),
        TEST(test_file_that_never_answers),
        TEST(test_dozens_of_files_that_never_answer),
        TEST(test_unresponsive_mount_is_suspended),
        TEST(test_starved_helper_is_waited_for),
        TEST(test_starved_helper_delays_one_turn),
        TEST(test_dead_files_delay_a_turn_by_a_bound),
        TEST(test_turn_without_time_requests_nothing),
        TEST(test_interruption_ends_a_wait),
        TEST(test_killed_helper_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
