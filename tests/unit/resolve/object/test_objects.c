/* Executable files by identity: one object for all sightings of a file, and the right file however its path has
 * changed. */
#include "resolve/object/objects.h"

#include "base/buf.h"
#include "resolve/elf/elf.h"
#include "resolve/files/object_file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "objects_fixture.h"

/* A copy of this program: an ELF file with a build id. */
static void write_program(const char *path)
{
    _cleanup_buf_ struct buf self = {0};
    assert_int_equal(buf_read_file(&self, "/proc/self/exe", 64 << 20), 0);
    write_file(path, self.data, self.size);
}

static void assert_same_file(int fd, const struct stat *expected)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_ino, expected->st_ino);
    assert_int_equal(st.st_dev, expected->st_dev);
}

static void test_only_files_become_objects(void **state)
{
    (void)state;
    static const char *const files[] = {"/usr/bin/python3.11", "/memfd:jit", "/dev/shm/x", "[vdso]",
                                        "/tmp/x (deleted)"};
    static const char *const others[] = {"",
                                         "//anon",
                                         "[heap]",
                                         "[stack]",
                                         "[vsyscall]",
                                         "[uprobes]",
                                         "[anon:name]",
                                         "anon_inode:[perf_event]",
                                         "/SYSV00000000",
                                         "/dev/zero",
                                         "/anon_hugepage"};
    for (size_t i = 0; i < array_size(files); i++)
        assert_true(object_path_is_file(files[i]));
    for (size_t i = 0; i < array_size(others); i++)
        assert_false(object_path_is_file(others[i]));
}

static void test_build_id_and_inode_are_one_object(void **state)
{
    (void)state;
    skip_without_openat2();
    struct place place, other;
    make_place(&place);
    make_place(&other);
    write_program(place.path);
    write_program(other.path); /* another file with the same build id, as in another container */
    int fd = open(place.path, O_RDONLY);
    struct object_identity id;
    assert_true(object_file_identify(fd, &id));
    assert_true(id.build_id_bytes > 0);
    close(fd);

    struct objects *objects = NULL;
    struct object *by_inode = NULL, *by_build_id = NULL, *elsewhere = NULL;
    assert_int_equal(objects_new(8, &objects), 0);
    struct object_sight sight = sight_of(place.path);
    assert_int_equal(objects_get(objects, &sight, &by_inode), 0);
    sight.device = sight.inode = 0;
    sight.build_id = id.build_id;
    sight.build_id_bytes = id.build_id_bytes;
    assert_int_equal(objects_get(objects, &sight, &by_build_id), 0);
    sight = sight_of(other.path);
    assert_int_equal(objects_get(objects, &sight, &elsewhere), 0);
    assert_ptr_equal(by_inode, by_build_id);
    assert_ptr_equal(by_inode, elsewhere);
    assert_string_equal(by_inode->path, place.path);
    assert_int_equal(strlen(by_inode->build_id), 2 * id.build_id_bytes);
    assert_false(by_inode->is_vdso);

    objects_release(by_inode);
    objects_release(by_build_id);
    objects_release(elsewhere);
    objects_free(objects);
    remove_place(&place);
    remove_place(&other);
}

/* An attacker gives a program the build id of a library, and runs it first. */
static void test_forged_build_id_affects_only_its_own_file(void **state)
{
    (void)state;
    skip_without_openat2();
    struct place liar_place, place;
    make_place(&liar_place);
    make_place(&place);
    write_program(place.path);
    _cleanup_buf_ struct buf lie = {0};
    assert_int_equal(buf_read_file(&lie, place.path, 64 << 20), 0);
    assert_int_equal(buf_append(&lie, "more", 4), 0);
    write_file(liar_place.path, lie.data, lie.size);
    struct object_identity id;
    _cleanup_close_ int fd = open(place.path, O_RDONLY | O_CLOEXEC);
    assert_true(object_file_identify(fd, &id));

    for (int by_inode = 0; by_inode < 2; by_inode++) { /* by build id, as in records, and by inode, as in /proc */
        struct objects *objects = NULL;
        struct object *all[5] = {NULL};
        assert_int_equal(objects_new(8, &objects), 0);
        struct object_sight sights[] = {sight_of(liar_place.path), sight_of(place.path), sight_of(place.path),
                                        sight_of(liar_place.path), sight_of(place.path)};
        for (size_t i = 0; i < array_size(sights); i++) {
            struct object_sight *s = &sights[i];
            s->view = i == 2 ? 2 : 1; /* once from another container */
            if (by_inode == 0) {
                s->inode = s->device = 0;
                s->build_id = id.build_id;
                s->build_id_bytes = id.build_id_bytes;
            }
            if (i == 4) { /* one that has exited: it could be either */
                s->path = "/nowhere/at/all";
                s->pid_count = by_inode == 0 ? 0 : 1;
            }
            assert_int_equal(objects_get(objects, s, &all[i]), 0);
        }
        assert_ptr_not_equal(all[0], all[1]);
        assert_ptr_equal(all[1], all[2]);
        assert_ptr_equal(all[0], all[3]);
        if (by_inode == 0) {
            assert_ptr_not_equal(all[4], all[0]);
            assert_ptr_not_equal(all[4], all[1]);
        }
        _cleanup_close_ int opened = object_open(all[1]);
        struct stat st;
        assert_int_equal(stat(place.path, &st), 0);
        assert_same_file(opened, &st);
        for (size_t i = 0; i < array_size(all); i++)
            objects_release(all[i]);
        objects_free(objects);
    }
    remove_place(&liar_place);
    remove_place(&place);
}

/* Maps a memory file, and returns its mapping. */
static struct object_sight map_memory(const struct buf *content)
{
    int fd = memfd_create("sonde-objects", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content->data, content->size), content->size);
    void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    close(fd);
    return (struct object_sight){.path = "/memfd:sonde-objects",
                                 .start = (uintptr_t)at,
                                 .end = (uintptr_t)at + 4096,
                                 .view = 1,
                                 .pids = {(uint32_t)getpid()},
                                 .pid_count = 1};
}

/* All memory files of one name have the same path, which identifies nothing: not even with the same build id. */
static void test_memory_files_have_no_path(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("files of mappings can be opened by root alone\n");
        skip();
    }
    struct objects *objects = NULL;
    struct object *all[3];
    struct object_identity id;
    _cleanup_buf_ struct buf program = {0};
    _cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_int_equal(buf_read_file(&program, "/proc/self/exe", 64 << 20), 0);
    assert_true(object_file_identify(fd, &id));
    struct object_sight sights[3] = {[1] = map_memory(&program), [2] = map_memory(&program)};
    assert_int_equal(buf_append(&program, "more", 4), 0);
    sights[0] = map_memory(&program);
    assert_int_equal(objects_new(8, &objects), 0);
    for (size_t i = 0; i < 3; i++) {
        sights[i].build_id = id.build_id;
        sights[i].build_id_bytes = id.build_id_bytes;
        assert_int_equal(objects_get(objects, &sights[i], &all[i]), 0);
    }
    assert_ptr_not_equal(all[0], all[1]);
    assert_ptr_equal(all[1], all[2]);
    for (size_t i = 0; i < 3; i++) {
        objects_release(all[i]);
        munmap((void *)(uintptr_t)sights[i].start, 4096); /* NOLINT: what mmap gave */
    }
    objects_free(objects);
}

/* A process that exited before its file was opened: the only file with this build id is used. */
static void test_unreachable_file_is_known_by_its_build_id(void **state)
{
    (void)state;
    skip_without_openat2();
    struct place place;
    make_place(&place);
    write_program(place.path);
    struct object_identity id;
    _cleanup_close_ int fd = open(place.path, O_RDONLY | O_CLOEXEC);
    assert_true(object_file_identify(fd, &id));
    struct objects *objects = NULL;
    struct object *known = NULL, *gone = NULL;
    assert_int_equal(objects_new(8, &objects), 0);
    struct object_sight sight = sight_of(place.path);
    assert_int_equal(objects_get(objects, &sight, &known), 0);
    sight =
        (struct object_sight){.path = "/nowhere/at/all", .build_id = id.build_id, .build_id_bytes = id.build_id_bytes};
    assert_int_equal(objects_get(objects, &sight, &gone), 0);
    assert_ptr_equal(known, gone);
    objects_release(known);
    objects_release(gone);
    objects_free(objects);
    remove_place(&place);
}

static void test_replaced_file_is_not_opened(void **state)
{
    (void)state;
    skip_without_openat2();
    struct place place;
    make_place(&place);
    write_program(place.path);
    static const uint8_t build_id[20] = {1, 2, 3};
    struct object_sight sight = sight_of(place.path);
    sight.inode = 0;
    sight.build_id = build_id;
    sight.build_id_bytes = sizeof(build_id);
    struct objects *objects = NULL;
    struct object *o = NULL;
    assert_int_equal(objects_new(8, &objects), 0);
    assert_int_equal(objects_get(objects, &sight, &o), 0); /* there is an object, by its identity ... */
    assert_int_equal(object_open(o), -ENOENT);             /* ... but no file of it */
    assert_string_equal(o->build_id, "0102030000000000000000000000000000000000");
    objects_release(o);

    sight = sight_of(place.path);
    sight.inode++;
    assert_int_equal(objects_get(objects, &sight, &o), 0);
    assert_int_equal(object_open(o), -ENOENT);
    objects_release(o);
    objects_free(objects);
    remove_place(&place);
}

static void test_deleted_file_is_opened(void **state)
{
    (void)state;
    struct place place;
    make_place(&place);
    write_program(place.path);
    int fd = open(place.path, O_RDONLY);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    close(fd);
    assert_ptr_not_equal(at, MAP_FAILED);
    struct object_sight sight = sight_of(place.path);
    sight.start = (uintptr_t)at;
    sight.end = sight.start + 4096;
    sight.by_maps = true;
    char other[96];
    snprintf(other, sizeof(other), "%s/other", place.directory);
    write_file(other, "x", 1);
    unlink(place.path);
    rename(other, place.path); /* and another file has taken its path */

    struct objects *objects = NULL;
    struct object *o = NULL;
    assert_int_equal(objects_new(8, &objects), 0);
    assert_int_equal(objects_get(objects, &sight, &o), 0);
    int opened = object_open(o);
    munmap(at, 4096);
    if (opened < 0 && geteuid() != 0) {
        print_message("skipped: /proc/PID/map_files needs CAP_CHECKPOINT_RESTORE\n");
        objects_release(o);
        objects_free(objects);
        remove_place(&place);
        skip();
    }
    assert_true(opened >= 0);
    assert_same_file(opened, &st);
    close(opened);
    objects_release(o);
    objects_free(objects);
    remove_place(&place);
}

static void test_reused_inode_is_another_object(void **state)
{
    (void)state;
    skip_without_openat2();
    struct place place;
    make_place(&place);
    write_file(place.path, "first", 5);
    struct objects *objects = NULL;
    struct object *first = NULL, *second = NULL;
    assert_int_equal(objects_new(8, &objects), 0);
    struct object_sight sight = sight_of(place.path);
    assert_int_equal(objects_get(objects, &sight, &first), 0);
    objects_live(first, 1);
    assert_int_equal(objects_get(objects, &sight, &second), 0);
    assert_ptr_equal(first, second); /* a process has it mapped: the inode number cannot have been reused */
    objects_live(first, -1);
    objects_release(second);
    assert_int_equal(objects_get(objects, &sight, &second), 0);
    assert_ptr_equal(first, second); /* no process has it mapped, but its size and the time of its last change are the
                                      * same */
    objects_release(second);
    object_ref(first);
    objects_release(first);
    objects_trim(objects, 1, UINT64_MAX); /* closes the file, so that its inode is free */

    unlink(place.path);
    write_file(place.path, "second", 6);
    struct object_sight again = sight_of(place.path);
    if (again.inode != sight.inode)
        print_message("note: this file system did not use the inode again at once\n");
    assert_int_equal(objects_get(objects, &again, &second), 0);
    assert_ptr_not_equal(first, second);
    assert_int_not_equal(first->id, second->id);
    object_unref(first);
    objects_release(second);
    objects_free(objects);
    remove_place(&place);
}

/* When several readers notice at once that a file does not answer, it backs off once. */
static void test_unreadable_file_backs_off_once(void **state)
{
    (void)state;
    skip_without_openat2();
    struct place place;
    make_place(&place);
    write_file(place.path, "file", 4);
    struct objects *objects = NULL;
    struct object *o = NULL;
    assert_int_equal(objects_new(8, &objects), 0);
    struct object_sight sight = sight_of(place.path);
    assert_int_equal(objects_get(objects, &sight, &o), 0);
    for (int reader = 0; reader < 100; reader++)
        object_unreadable(o);
    int fd = object_open(o);
    assert_int_equal(fd, -ETIMEDOUT);
    for (int attempts = 0; attempts < 300 && fd == -ETIMEDOUT; attempts++) { /* a hundred back-offs would take 64
                                                                              * seconds and more */
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        fd = object_open(o);
    }
    assert_true(fd >= 0);
    close(fd);
    objects_release(o);
    objects_free(objects);
    remove_place(&place);
}

static void test_descriptors_are_bounded_and_reopened(void **state)
{
    (void)state;
    skip_without_openat2();
    enum { FILES = 12 };
    struct place place;
    make_place(&place);
    struct objects *objects = NULL;
    struct object *all[FILES];
    char paths[FILES][128];
    assert_int_equal(objects_new(3, &objects), 0);
    for (int i = 0; i < FILES; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%d", place.directory, i);
        write_file(paths[i], paths[i], strlen(paths[i]));
        struct object_sight sight = sight_of(paths[i]);
        assert_int_equal(objects_get(objects, &sight, &all[i]), 0);
    }
    struct objects_stats stats;
    for (int i = 0; i < FILES; i++) {
        struct stat st;
        assert_int_equal(stat(paths[i], &st), 0);
        int fd = object_open(all[i]);
        assert_true(fd >= 0);
        assert_same_file(fd, &st);
        close(fd);
        objects_stats(objects, &stats);
        assert_true(stats.open_files <= 3);
    }
    assert_int_equal(stats.objects, FILES);
    for (int i = 0; i < FILES; i++) {
        objects_release(all[i]);
        unlink(paths[i]);
    }
    objects_trim(objects, 2, UINT64_MAX);
    objects_stats(objects, &stats);
    assert_int_equal(stats.objects, 0);
    assert_int_equal(stats.open_files, 0);
    assert_int_equal(stats.bytes, 0);
    objects_free(objects);
    rmdir(place.directory);
}

/* Copies of a file are one object: to reopen it, any remaining copy is used. */
static void test_copy_is_opened_when_the_first_file_is_gone(void **state)
{
    (void)state;
    skip_without_openat2();
    for (int gone = 0; gone < 2; gone++) {
        struct place places[3];
        struct object *all[3];
        struct objects *objects = NULL;
        assert_int_equal(objects_new(1, &objects), 0);
        for (int i = 0; i < 3; i++) {
            make_place(&places[i]);
            if (i < 2)
                write_program(places[i].path);
            else
                write_file(places[i].path, "x", 1);
            const struct object_sight sight = sight_of(places[i].path);
            assert_int_equal(objects_get(objects, &sight, &all[i]), 0);
        }
        assert_ptr_equal(all[0], all[1]);
        assert_ptr_not_equal(all[0], all[2]); /* which took the only descriptor */
        struct stat left;
        assert_int_equal(stat(places[!gone].path, &left), 0);
        assert_int_equal(unlink(places[gone].path), 0);
        _cleanup_close_ int fd = object_open(all[0]);
        assert_true(fd >= 0);
        assert_same_file(fd, &left);
        for (int i = 0; i < 3; i++) {
            objects_release(all[i]);
            remove_place(&places[i]);
        }
        objects_trim(objects, 2, UINT64_MAX);
        struct objects_stats stats;
        objects_stats(objects, &stats);
        assert_int_equal(stats.bytes, 0);
        objects_free(objects);
    }
}

static void test_referenced_object_outlives_its_table(void **state)
{
    (void)state;
    struct place place;
    make_place(&place);
    write_file(place.path, "x", 1);
    struct objects *objects = NULL;
    struct object *o = NULL;
    assert_int_equal(objects_new(3, &objects), 0);
    struct object_sight sight = sight_of(place.path);
    assert_int_equal(objects_get(objects, &sight, &o), 0);
    object_ref(o);
    objects_release(o);
    objects_free(objects);
    assert_string_equal(o->path, place.path);
    assert_null(object_unref(o));
    remove_place(&place);
}

static void test_fifo_and_device_are_not_opened(void **state)
{
    (void)state;
    skip_without_openat2();
    struct place place;
    make_place(&place);
    assert_int_equal(mkfifo(place.path, 0644), 0);
    struct object_sight sight = sight_of(place.path);
    struct object_identity id;
    assert_int_equal(object_file_open(&sight, &id), -ENOENT);
    sight = sight_of("/dev/null");
    assert_int_equal(object_file_open(&sight, &id), -ENOENT);
    remove_place(&place);
}

static void test_vdso_is_an_object(void **state)
{
    (void)state;
    struct objects *objects = NULL;
    struct object *a = NULL, *b = NULL;
    assert_int_equal(objects_new(3, &objects), 0);
    struct object_sight sight = {
        .path = "[vdso]", .start = 0x7fff00000000, .end = 0x7fff00002000, .pids = {1}, .pid_count = 1};
    assert_int_equal(objects_get(objects, &sight, &a), 0);
    sight.start += 0x10000;
    sight.end += 0x10000;
    assert_int_equal(objects_get(objects, &sight, &b), 0);
    assert_ptr_equal(a, b);
    assert_true(a->is_vdso);
    int fd = object_open(a);
    if (fd < 0) {
        print_message("skipped: no vdso in this process\n");
    } else {
        struct elf_file *elf = NULL;
        assert_int_equal(elf_open(fd, &elf), 0);
        elf_file_free(elf);
    }
    sight.start = 0xf7f00000; /* a 32-bit process */
    sight.end = 0xf7f02000;
    struct object *none = NULL;
    assert_int_equal(objects_get(objects, &sight, &none), -ENOENT);
    assert_null(none);
    objects_release(a);
    objects_release(b);
    objects_free(objects);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_files_become_objects),
        cmocka_unit_test(test_build_id_and_inode_are_one_object),
        cmocka_unit_test(test_forged_build_id_affects_only_its_own_file),
        cmocka_unit_test(test_memory_files_have_no_path),
        cmocka_unit_test(test_unreachable_file_is_known_by_its_build_id),
        cmocka_unit_test(test_replaced_file_is_not_opened),
        cmocka_unit_test(test_deleted_file_is_opened),
        cmocka_unit_test(test_reused_inode_is_another_object),
        cmocka_unit_test(test_unreadable_file_backs_off_once),
        cmocka_unit_test(test_descriptors_are_bounded_and_reopened),
        cmocka_unit_test(test_copy_is_opened_when_the_first_file_is_gone),
        cmocka_unit_test(test_referenced_object_outlives_its_table),
        cmocka_unit_test(test_fifo_and_device_are_not_opened),
        cmocka_unit_test(test_vdso_is_an_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
