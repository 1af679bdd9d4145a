/* native_lines.c on this program, which knows its own lines: answers come later, with inlined functions; addresses and
 * files without lines have none. */
#include "resolve/lines/native_lines.h"

#include "resolve/lines/line_helper.h"
#include "resolve/object/objects.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../emulated.h"

static volatile unsigned sink;

enum { FIRST_LINE = __LINE__ + 1 };
static inline __attribute__((always_inline)) void inlined(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        sink += i;
}

static __attribute__((noinline)) void known(unsigned n)
{
    inlined(n);
    sink++;
}
enum { LAST_LINE = __LINE__ - 1 };

static int find_base(struct dl_phdr_info *info, size_t size, void *base)
{
    (void)size;
    *(uint64_t *)base = info->dlpi_addr;
    return 1; /* the program is the first */
}

struct fixture {
    struct objects *objects;
    struct object *object, *without;
    uint64_t known; /* address of the function */
};

static void get_object(struct fixture *f, const char *path, struct object **ret)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    const struct object_sight sight = {
        .path = path, .device = st.st_dev, .inode = st.st_ino, .pids = {(uint32_t)getpid()}, .pid_count = 1};
    assert_int_equal(objects_get(f->objects, &sight, ret), 0);
}

static int setup(void **state)
{
    static struct fixture f;
    static char without[PATH_MAX];
    char path[PATH_MAX] = "";
    uint64_t base = 0;
    known(3);
    assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
    dl_iterate_phdr(find_base, &base);
    f.known = (uintptr_t)known - base;
    assert_int_equal(objects_new(4, &f.objects), 0);
    objects_set_inline(f.objects);
    get_object(&f, path, &f.object);
    snprintf(without, sizeof(without), "%s", "/bin/true");
    get_object(&f, without, &f.without);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    objects_release(f->object);
    objects_release(f->without);
    objects_free(f->objects);
    return 0;
}

static struct native_lines *make_or_skip(void)
{
    struct native_lines *n;
    skip_if_emulated(); /* the emulator does not support filters answered by another process */
    const int r = native_lines_new(&n);
    if (r == -ENOPKG) {
        print_message("libdw is not there\n");
        skip();
    }
    assert_int_equal(r, 0);
    return n;
}

static int wait_for_lines(struct native_lines *n, struct object *object, uint64_t address, struct native_place *ret)
{
    int r;
    while ((r = native_lines_find(n, object, address, ret)) == -EAGAIN)
        poll(NULL, 0, 5);
    return r;
}

static void test_line_of_a_function_is_known_later(void **state)
{
    const struct fixture *f = *state;
    _cleanup_(native_lines_freep) struct native_lines *n = make_or_skip();
    struct native_place place;
    assert_int_equal(native_lines_find(n, f->object, f->known, &place), -EAGAIN);
    assert_int_equal(wait_for_lines(n, f->object, f->known, &place), 0);
    assert_true(place.count >= 1);
    const struct native_function *outermost = &place.functions[place.count - 1];
    assert_string_equal(outermost->function, "known");
    assert_string_equal(strrchr(outermost->file, '/'), "/test_native_lines.c");
    assert_in_range(outermost->line, FIRST_LINE, LAST_LINE);
}

static void test_an_inlined_function_is_the_inner_one(void **state)
{
    const struct fixture *f = *state;
    _cleanup_(native_lines_freep) struct native_lines *n = make_or_skip();
    struct native_place place;
    bool is_found = false;
    for (uint64_t address = f->known; address < f->known + 64; address++) /* all are looked up together */
        (void)native_lines_find(n, f->object, address, &place);
    for (uint64_t address = f->known; address < f->known + 64 && !is_found; address++)
        is_found = wait_for_lines(n, f->object, address, &place) == 0 && place.count == 2 &&
                   strcmp(place.functions[0].function, "inlined") == 0 &&
                   strcmp(place.functions[1].function, "known") == 0;
    assert_true(is_found);
}

static void test_file_is_read_once_for_addresses_of_the_same_time(void **state)
{
    const struct fixture *f = *state;
    _cleanup_(native_lines_freep) struct native_lines *n = make_or_skip();
    struct native_place place;
    struct native_lines_stats stats;
    for (int round = 0; round < 2; round++)
        for (uint64_t i = 0; i < 8; i++)
            (void)native_lines_find(n, f->object, f->known + i, &place);
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(wait_for_lines(n, f->object, f->known + i, &place), 0);
    do /* lookups are counted after their answers */
        native_lines_stats(n, &stats);
    while (stats.addresses < 8 || stats.cpu_ns == 0);
    assert_int_equal(stats.addresses, 8);
    assert_int_equal(stats.found, 8);
    assert_in_range(stats.lookups, 1, 8); /* 1, unless this process was stopped for longer than addresses collect */
}

static void test_no_lines(void **state)
{
    const struct fixture *f = *state;
    _cleanup_(native_lines_freep) struct native_lines *n = make_or_skip();
    struct native_place place;
    assert_int_equal(wait_for_lines(n, f->object, 1, &place), -ENOENT);
    assert_int_equal(wait_for_lines(n, f->without, 0x1000, &place), -ENOENT);
}

/* The queue takes longer than the time: lookups in progress are given up. */
static void test_end_does_not_wait_for_lookups(void **state)
{
    const struct fixture *f = *state;
    struct native_lines *n = make_or_skip();
    struct native_place place;
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(native_lines_find(n, f->object, f->known + i, &place), -EAGAIN);
    native_lines_free(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_of_a_function_is_known_later),
        cmocka_unit_test(test_an_inlined_function_is_the_inner_one),
        cmocka_unit_test(test_file_is_read_once_for_addresses_of_the_same_time),
        cmocka_unit_test(test_no_lines),
        cmocka_unit_test(test_end_does_not_wait_for_lookups),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
