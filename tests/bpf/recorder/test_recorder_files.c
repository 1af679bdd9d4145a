/* Which file, and which part of it, a thread waits for. The file lies on a loop device, whose reads a thread of the
 * kernel does, so that its reader sleeps. */
#include "recording.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILE_PAGES 2048
#define PAGE       4096

struct cold_file {
    char folder[32], path[64];
    int fd;
};

static bool run_shell(const char *command)
{
    const pid_t child = fork();
    int status;
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* False: no loop devices here. */
static bool make_cold_file(struct cold_file *f)
{
    char command[512];
    snprintf(f->folder, sizeof(f->folder), "/tmp/sonde-cold-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    snprintf(command, sizeof(command),
             "truncate -s 32M %s.image && mkfs.ext4 -q -m 0 -O ^has_journal %s.image && mount -o loop %s.image %s && "
             "head -c %d /dev/urandom >%s/weights.new && sync -f %s/weights.new",
             f->folder, f->folder, f->folder, f->folder, FILE_PAGES * PAGE, f->folder, f->folder);
    if (!run_shell(command))
        return false;
    snprintf(f->path, sizeof(f->path), "%s/weights.new", f->folder);
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
    assert_true(f->fd >= 0);
    return true;
}

static void remove_cold_file(struct cold_file *f)
{
    char command[256];
    if (f->fd > 0)
        close(f->fd);
    snprintf(command, sizeof(command), "umount %s 2>/dev/null; rm -rf %s %s.image", f->folder, f->folder, f->folder);
    assert_true(run_shell(command));
}

static void make_cold(const struct cold_file *f)
{
    assert_int_equal(posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    assert_int_equal(posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM), 0);
}

/* One byte of each of some pages, far from one another. */
static void read_pages(const struct cold_file *f)
{
    char byte;
    make_cold(f);
    for (int i = 0; i < 64; i++)
        assert_int_equal(pread(f->fd, &byte, 1, (off_t)i * 32 * PAGE), 1);
}

static void touch_pages(const struct cold_file *f)
{
    make_cold(f);
    const volatile char *at = mmap(NULL, FILE_PAGES * PAGE, PROT_READ, MAP_SHARED, f->fd, 0);
    assert_true(at != MAP_FAILED);
    assert_int_equal(madvise((void *)at, FILE_PAGES * PAGE, MADV_RANDOM), 0);
    for (int i = 0; i < 64; i++)
        (void)at[(size_t)i * 32 * PAGE + 16 * PAGE];
    munmap((void *)at, FILE_PAGES * PAGE);
}

/* As a download does that is complete. */
static void rename_file(const struct cold_file *f)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/weights.bin", f->folder);
    assert_int_equal(rename(f->path, path), 0);
}

/* How many such records name the file and a page of `i * 32 + offset`; others of the thread are about other files. */
static size_t count_records(const struct recording *r, const struct flight_window *w, const char *name, int number,
                            uint8_t flags, uint64_t offset)
{
    const struct recorder_record *record;
    size_t at = 0, count = 0;
    while ((record = recording_next(w, &at, RECORDER_FILE, (uint32_t)gettid()))) {
        struct recorder_file file;
        if (record->syscall != number || record->flags != flags ||
            !flight_recorder_file(r->fr, record->object, &file) || strcmp(file.name, name) != 0)
            continue;
        assert_string_equal(file.file_system, "ext4");
        assert_int_equal(recorder_first_page(record->value) % 32, offset);
        assert_int_equal(recorder_page_count(record->value), 1);
        count++;
    }
    return count;
}

/* Those that this thread handed in, to the file's device, a page each. */
static size_t count_requests(const struct flight_window *w, uint32_t device)
{
    const struct recorder_record *record;
    size_t at = 0, count = 0;
    while ((record = recording_next(w, &at, RECORDER_DISK, (uint32_t)gettid()))) {
        if (recorder_high(record->object) != device || recorder_low(record->object) != PAGE / 512)
            continue;
        assert_int_equal(record->flags, 0);
        assert_true(recorder_high(record->value) < 10000000);
        count++;
    }
    return count;
}

static uint32_t device_of(const struct cold_file *f)
{
    struct stat status;
    assert_int_equal(fstat(f->fd, &status), 0);
    return (uint32_t)major(status.st_dev) << 20 | (uint32_t)minor(status.st_dev);
}

/* A read may be over before its thread sleeps; not all of them are. */
void test_files_that_are_waited_for(void **state)
{
    struct recording r;
    struct cold_file f = {.fd = -1};
    (void)state;
    if (!make_cold_file(&f)) {
        remove_cold_file(&f);
        print_message("no ext4 on a loop device here\n");
        skip();
    }
    recording_begin(&r, 8192);
    read_pages(&f);
    rename_file(&f);
    read_pages(&f);
    touch_pages(&f);
    struct flight_window w = recording_window(&r);
    const size_t before = count_records(&r, &w, "weights.new", SYS_pread64, 0, 0);
    const size_t asked = count_records(&r, &w, "weights.bin", SYS_pread64, 0, 0);
    const size_t added = count_records(&r, &w, "weights.bin", SYS_pread64, RECORDER_ADDED_PAGES, 0);
    const size_t faults = count_records(&r, &w, "weights.bin", RECORDER_NO_SYSCALL, RECORDER_ADDED_PAGES, 16);
    const size_t requests = count_requests(&w, device_of(&f));
    flight_recorder_window_free(&w);
    recording_end(&r);
    remove_cold_file(&f);
    assert_true(requests >= 3 * 64); /* as many as pages were read from the disk, whether the thread slept or not */
    if (before < 32 || asked < 32 || added < 32 || faults < 32)
        fail_msg(
            "%zu records of reads before the file was renamed, %zu after, %zu of the pages that they added, %zu of "
            "page faults",
            before, asked, added, faults);
}
