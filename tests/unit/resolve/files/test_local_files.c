/* Files that are opened without the helper: only those of local file systems, and never another one. */
#include "resolve/files/local_mounts.h"
#include "resolve/files/object_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif

static bool can_mount(void)
{
    const struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_CACHED};
    _cleanup_close_ int fd = (int)syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how));
    if (fd < 0)
        print_message("skipped: this kernel has no RESOLVE_CACHED\n");
    return fd >= 0 && unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static uint64_t own_view(void)
{
    struct stat st;
    assert_int_equal(stat("/proc/self/ns/mnt", &st), 0);
    return st.st_ino;
}

static struct object_sight sight_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (struct object_sight){.path = path, .device = st.st_dev, .inode = st.st_ino, .view = own_view()};
}

/* 0: it is opened, and is the file `text`. */
static int open_at_once(struct local_mounts *mounts, const struct object_sight *sight, const char *text)
{
    struct object_identity id;
    _cleanup_close_ int fd = object_file_open_at_once(sight, own_view(), mounts, &id);
    if (fd < 0)
        return fd;
    char read_text[16] = "";
    assert_true(read(fd, read_text, sizeof(read_text) - 1) > 0);
    assert_string_equal(read_text, text);
    assert_true(id.mount_id > 0 && id.mount_id == object_file_mount(fd) && id.inode == sight->inode && !id.is_remote);
    return 0;
}

/* The inode, or 0. */
static uint64_t inode_at_once(struct local_mounts *mounts, const struct object_sight *sight)
{
    struct object_place place;
    return object_file_place_at_once(sight, own_view(), mounts, &place) == 0 ? place.inode : 0;
}

static uint32_t ended_process(void)
{
    const pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return (uint32_t)pid;
}

static void write_text(const char *path, const char *text)
{
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void in_mounted_folder(const char *folder, struct local_mounts *mounts)
{
    char path[96], other[96], fifo[96], link_path[96];
    snprintf(path, sizeof(path), "%s/program", folder);
    snprintf(other, sizeof(other), "%s/other", folder);
    snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
    snprintf(link_path, sizeof(link_path), "%s/link", folder);
    write_text(path, "program");
    write_text(other, "other");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(symlink("program", link_path), 0);

    struct object_sight sight = sight_of(path);
    assert_int_equal(open_at_once(mounts, &sight, "program"), 0);
    assert_int_equal(inode_at_once(mounts, &sight), sight.inode);
    sight.path = link_path;
    assert_int_equal(open_at_once(mounts, &sight, "program"), 0);
    assert_int_equal(inode_at_once(mounts, &sight), sight.inode);
    sight.path = other; /* the file there is another one now */
    assert_int_equal(open_at_once(mounts, &sight, ""), -EAGAIN);
    sight.pids[sight.pid_count++] = (uint32_t)getpid();
    assert_int_equal(open_at_once(mounts, &sight, ""), -EAGAIN);
    sight.pids[0] = ended_process(); /* its parent may map the file */
    assert_int_equal(open_at_once(mounts, &sight, ""), -EAGAIN);
    sight.by_exec = true; /* nothing leads to the file any more */
    assert_int_equal(open_at_once(mounts, &sight, ""), -ENOENT);
    sight.path = "/tmp"; /* not a file */
    assert_int_equal(open_at_once(mounts, &sight, ""), -ENOENT);
    sight = sight_of(fifo); /* it must not wait for a writer */
    assert_int_equal(open_at_once(mounts, &sight, ""), -EAGAIN);
    sight = sight_of(path);
    sight.view++; /* of a process in another mount namespace, where the path may lead elsewhere */
    assert_int_equal(open_at_once(mounts, &sight, ""), -EAGAIN);
    assert_int_equal(inode_at_once(mounts, &sight), 0);
    sight = sight_of("/proc/self/status"); /* no local file system */
    assert_int_equal(open_at_once(mounts, &sight, ""), -EAGAIN);
    assert_int_equal(inode_at_once(mounts, &sight), 0);
    sight.path = "/proc/self/exe"; /* leads out of what is cached */
    assert_int_equal(open_at_once(mounts, &sight, ""), -EAGAIN);
}

static void test_only_local_files_are_opened_at_once(void **state)
{
    (void)state;
    char folder[] = "/tmp/sonde-local-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const pid_t pid = fork(); /* in a mount namespace of its own */
    if (pid == 0) {
        _cleanup_(local_mounts_freep) struct local_mounts *mounts = NULL;
        if (!can_mount())
            _exit(77);
        assert_int_equal(local_mounts_new(&mounts), 0);
        assert_false(local_mounts_has(mounts, 0));
        assert_int_equal(mount("test", folder, "tmpfs", 0, NULL), 0); /* after the list was read */
        _cleanup_close_ int root = open(folder, O_RDONLY | O_DIRECTORY);
        const uint64_t id = object_file_mount(root);
        assert_true(local_mounts_has(mounts, id));
        in_mounted_folder(folder, mounts);
        assert_int_equal(umount2(folder, MNT_DETACH), 0);
        assert_false(local_mounts_has(mounts, id)); /* the number may be another mount's from now on */
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(rmdir(folder), 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

static void test_local_file_systems(void **state)
{
    (void)state;
    assert_true(local_file_system(TMPFS_MAGIC) && local_file_system(EXT4_SUPER_MAGIC));
    assert_false(local_file_system(NFS_SUPER_MAGIC) || local_file_system(OVERLAYFS_SUPER_MAGIC) ||
                 local_file_system(0x65735546)); /* FUSE */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_local_files_are_opened_at_once),
        cmocka_unit_test(test_local_file_systems),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
