/* source_lines.c on this program, which knows its own lines: the lines found, and the lines that remain when the time
 * is over or the search is cancelled. */
#include "resolve/lines/source_lines.h"

#include "resolve/lines/line_helper.h"
#include "resolve/lines/line_objects.h"
#include "resolve/object/objects.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "../../emulated.h"
#include "../../fixture.h"

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

/* Code of this unit that belongs to no function. */
__asm__(".text\noutside_functions: nop\n");
extern const char outside_functions[];

/* Functions that are inlined into one another, each in a block. */
#define NESTED_LEVELS 26
#define INLINED       static inline __attribute__((always_inline)) void
#define NESTED(level, inner)                                                                                           \
    INLINED nested_##level(unsigned n)                                                                                 \
    {                                                                                                                  \
        if (sink != n) {                                                                                               \
            volatile unsigned in_a_block = n;                                                                          \
            nested_##inner(in_a_block + 1);                                                                            \
        }                                                                                                              \
    }
INLINED nested_a(unsigned n)
{
    __asm__ volatile("nested_place: nop" ::"r"(n));
}
NESTED(b, a)
NESTED(c, b)
NESTED(d, c)
NESTED(e, d)
NESTED(f, e)
NESTED(g, f)
NESTED(h, g)
NESTED(i, h)
NESTED(j, i)
NESTED(k, j)
NESTED(l, k)
NESTED(m, l)
NESTED(n, m)
NESTED(o, n)
NESTED(p, o)
NESTED(q, p)
NESTED(r, q)
NESTED(s, r)
NESTED(t, s)
NESTED(u, t)
NESTED(v, u)
NESTED(w, v)
NESTED(x, w)
NESTED(y, x)
NESTED(z, y)
extern const char nested_place[];

static __attribute__((noinline)) void deeply_inlined(unsigned n)
{
    nested_z(n);
    sink++;
}

struct place {
    char path[PATH_MAX];
    uint64_t address;
};

static int find_base(struct dl_phdr_info *info, size_t size, void *base)
{
    (void)size;
    *(uint64_t *)base = info->dlpi_addr;
    return 1; /* the program is the first */
}

struct fixture {
    struct objects *objects;
    struct object *object;
    struct line_objects *noted;
    struct profile *profile;
};

static int setup(void **state)
{
    static struct fixture f;
    struct stat st;
    char path[PATH_MAX] = "";
    uint64_t base = 0;
    known(3);
    assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
    assert_int_equal(stat(path, &st), 0);
    dl_iterate_phdr(find_base, &base);
    const struct object_sight sight = {
        .path = path, .device = st.st_dev, .inode = st.st_ino, .pids = {(uint32_t)getpid()}, .pid_count = 1};
    assert_int_equal(objects_new(4, &f.objects), 0);
    objects_set_inline(f.objects);
    assert_int_equal(objects_get(f.objects, &sight, &f.object), 0);
    assert_int_equal(line_objects_new(&f.noted), 0);
    line_objects_note(f.noted, f.object, path);
    line_objects_note(f.noted, f.object, path);
    struct frame frames[] = {fixture_frame(FRAME_NATIVE, "known", path, (uintptr_t)known - base + 4),
                             fixture_frame(FRAME_NATIVE, "nowhere", path, 1),
                             fixture_frame(FRAME_NATIVE, "gone", "/no/such/file", 1),
                             fixture_frame(FRAME_KERNEL, "kernel", "[kernel.kallsyms]", 1)};
    for (size_t i = 0; i < 2; i++)
        frames[i].build_id = f.object->build_id;
    const struct resource resource = fixture_resource(1, "test");
    assert_int_equal(profile_new(0, &f.profile), 0);
    assert_int_equal(fixture_add(f.profile, &resource, 1, "test", 1, frames, array_size(frames)), 0);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    profile_free(f->profile);
    line_objects_free(f->noted);
    objects_release(f->object);
    objects_free(f->objects);
    return 0;
}

#define skip_where_lines_cannot_be()                                                                                   \
    do {                                                                                                               \
        skip_if_emulated(); /* nor does the emulator support filters answered by another process */                    \
        if (line_helper_check() < 0) {                                                                                 \
            print_message("libdw is not there\n");                                                                     \
            skip();                                                                                                    \
        }                                                                                                              \
    } while (0)

static void test_own_lines_are_found(void **state)
{
    const struct fixture *f = *state;
    skip_where_lines_cannot_be();
    _cleanup_(source_lines_freep) struct source_lines *lines = NULL;
    const struct source_lines_options options = {.inlines = true, .stop_fd = -1};
    struct source_lines_stats stats;
    assert_int_equal(source_lines_find(f->profile, f->noted, &options, &lines), 0);
    source_lines_stats(lines, &stats);
    assert_int_equal(stats.frames, 3);
    assert_int_equal(stats.with_line, 1);
    assert_int_equal(stats.without[SOURCE_LINE_NO_PLACE], 1);
    assert_int_equal(stats.without[SOURCE_LINE_NO_FILE], 1);
    const struct profile_frame_lines *row = &source_lines_rows(lines)[0];
    assert_true(row->count >= 1);
    const struct profile_line *line = &row->lines[row->count - 1];
    assert_string_equal(strrchr(line->file, '/') + 1, strrchr(__FILE__, '/') + 1);
    assert_in_range(line->line, FIRST_LINE, LAST_LINE);
    assert_string_equal(line->function, "known");
    for (int i = 1; i < 4; i++)
        assert_int_equal(source_lines_rows(lines)[i].count, 0);
}

/* The place outside all functions has the whole tree searched: a search that took twice as long with each level ended
 * at its limit, and the file counted as damaged. */
static void test_code_outside_functions_is_no_damage(void **state)
{
    const struct fixture *f = *state;
    const char *path = f->object->path;
    uint64_t base = 0;
    skip_where_lines_cannot_be();
    deeply_inlined(3);
    dl_iterate_phdr(find_base, &base);
    struct frame frames[] = {fixture_frame(FRAME_NATIVE, "nested", path, (uintptr_t)nested_place - base),
                             fixture_frame(FRAME_NATIVE, "outside", path, (uintptr_t)outside_functions - base),
                             fixture_frame(FRAME_NATIVE, "nowhere", path, 1)};
    for (size_t i = 0; i < array_size(frames); i++)
        frames[i].build_id = f->object->build_id;
    const struct resource resource = fixture_resource(1, "test");
    _cleanup_(profile_freep) struct profile *profile = NULL;
    assert_int_equal(profile_new(0, &profile), 0);
    assert_int_equal(fixture_add(profile, &resource, 1, "test", 1, frames, array_size(frames)), 0);

    _cleanup_(source_lines_freep) struct source_lines *lines = NULL;
    const struct source_lines_options options = {.inlines = true, .stop_fd = -1};
    struct source_lines_stats stats;
    assert_int_equal(source_lines_find(profile, f->noted, &options, &lines), 0);
    source_lines_stats(lines, &stats);
    assert_int_equal(stats.without[SOURCE_LINE_DAMAGED], 0);
    assert_true(stats.without[SOURCE_LINE_NO_PLACE] >= 1);
    const struct profile_frame_lines *row = &source_lines_rows(lines)[0];
    assert_int_equal(row->count, NESTED_LEVELS + 1);
    assert_string_equal(row->lines[0].function, "nested_a");
    assert_string_equal(row->lines[NESTED_LEVELS].function, "deeply_inlined");
}

static void test_deadline_loses_only_lines(void **state)
{
    const struct fixture *f = *state;
    skip_where_lines_cannot_be();
    _cleanup_(source_lines_freep) struct source_lines *lines = NULL;
    const struct source_lines_options options = {.file_max_ns = 1, .stop_fd = -1};
    struct source_lines_stats stats;
    assert_int_equal(source_lines_find(f->profile, f->noted, &options, &lines), 0);
    source_lines_stats(lines, &stats);
    assert_int_equal(stats.with_line, 0);
    assert_int_equal(stats.without[SOURCE_LINE_TOO_LONG], 2);
}

static void test_stop_fd_ends_the_search(void **state)
{
    skip_where_lines_cannot_be();
    const struct fixture *f = *state;
    _cleanup_(source_lines_freep) struct source_lines *lines = NULL;
    _cleanup_close_ int stop = eventfd(1, EFD_CLOEXEC);
    const struct source_lines_options options = {.stop_fd = stop};
    struct source_lines_stats stats;
    assert_int_equal(source_lines_find(f->profile, f->noted, &options, &lines), 0);
    source_lines_stats(lines, &stats);
    assert_int_equal(stats.with_line, 0);
    assert_true(stats.without[SOURCE_LINE_ENDED] >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_own_lines_are_found, setup, teardown),
        cmocka_unit_test_setup_teardown(test_code_outside_functions_is_no_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deadline_loses_only_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stop_fd_ends_the_search, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
