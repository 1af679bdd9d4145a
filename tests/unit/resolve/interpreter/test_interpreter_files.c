/* Which files are searched for an interpreter, how often, and when they are retried. All objects are this program, as
 * far as it can be opened. */
#include "resolve/elf/elf.h"
#include "resolve/interpreter/interpreter_files.h"
#include "resolve/process/processes.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define OBJECTS 8

static int open_error; /* 0: it can be opened */
static unsigned opened, blamed, read_count;

int object_open(const struct object *o)
{
    (void)o;
    opened++;
    int fd = open_error ? open_error : open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    return fd < 0 && !open_error ? -errno : fd;
}

void object_unreadable(const struct object *o)
{
    (void)o;
    blamed++;
}

static bool is_likely(const char *path)
{
    return strstr(path, "libforth") != NULL;
}

static int read_forth(const struct elf_file *elf, bool likely, void *ret)
{
    (void)elf;
    read_count++;
    *(uint64_t *)ret = 4711;
    return likely ? 0 : -ENOENT;
}

static const struct interpreter_files_of files_of = {sizeof(uint64_t), is_likely, read_forth};

struct fixture {
    struct interpreter_files *files;
    struct object objects[OBJECTS];
    struct process_mapping mappings[OBJECTS];
};

static int make_fixture(void **state)
{
    static struct fixture w;
    w = (struct fixture){0};
    open_error = 0;
    opened = blamed = read_count = 0;
    for (size_t i = 0; i < OBJECTS; i++) {
        w.objects[i] = (struct object){.id = i + 1, .path = "/x", .build_id = ""};
        w.mappings[i] = (struct process_mapping){
            .start = 0x10000 * i, .end = 0x10000 * i + 0x1000, .object = &w.objects[i], .path = "/lib/libforth.so"};
    }
    *state = &w;
    return interpreter_files_new(&files_of, &w.files);
}

static int free_fixture(void **state)
{
    interpreter_files_free(((struct fixture *)*state)->files);
    return 0;
}

static bool find_interpreter(struct fixture *w, size_t i, struct interpreter_files_look *look)
{
    struct interpreter_file file;
    const bool found = interpreter_files_find(w->files, &w->mappings[i], i == 0, look, &file);
    if (found)
        assert_int_equal(*(const uint64_t *)file.contents, 4711);
    return found;
}

static void test_each_file_is_read_once(void **state)
{
    struct fixture *w = *state;
    struct interpreter_files_look look = {.reads = INTERPRETER_FILES_READS};
    for (int i = 0; i < 3; i++)
        assert_true(find_interpreter(w, 1, &look));
    w->mappings[0].path = "/bin/program";
    w->mappings[2].path = "/lib/other.so";
    assert_false(find_interpreter(w, 0, &look)); /* a program without an interpreter */
    assert_false(find_interpreter(w, 0, &look));
    assert_false(find_interpreter(w, 2, &look)); /* a library not named like an interpreter is not searched */
    assert_int_equal(read_count, 2);
    assert_int_equal(opened, 2);
    assert_int_equal(interpreter_files_none(&look), -ENOENT);
}

static void test_unreadable_file_is_retried_later(void **state)
{
    struct fixture *w = *state;
    static const int passing[] = {-ETIMEDOUT, -EAGAIN, -ENOMEM};
    for (size_t i = 0; i < sizeof(passing) / sizeof(*passing); i++) {
        struct interpreter_files_look look = {.reads = INTERPRETER_FILES_READS};
        open_error = passing[i];
        assert_false(find_interpreter(w, i, &look));
        assert_int_equal(interpreter_files_none(&look), -EBUSY);
        open_error = 0;
        look = (struct interpreter_files_look){.reads = INTERPRETER_FILES_READS};
        assert_true(find_interpreter(w, i, &look));
        assert_int_equal(interpreter_files_none(&look), -ENOENT);
    }
    struct interpreter_files_look look = {.reads = INTERPRETER_FILES_READS};
    open_error = -ENOENT; /* the file is gone */
    assert_false(find_interpreter(w, 7, &look));
    assert_int_equal(interpreter_files_none(&look), -ENOENT);
}

static void test_files_beyond_the_limit_are_read_later(void **state)
{
    struct fixture *w = *state;
    struct interpreter_files_look look = {.reads = INTERPRETER_FILES_READS};
    for (size_t i = 0; i < OBJECTS; i++)
        assert_int_equal(find_interpreter(w, i, &look), i < INTERPRETER_FILES_READS);
    assert_int_equal(interpreter_files_none(&look), -EBUSY);
    look = (struct interpreter_files_look){.reads = INTERPRETER_FILES_READS};
    for (size_t i = 0; i < OBJECTS; i++)
        assert_true(find_interpreter(w, i, &look));
    assert_int_equal(interpreter_files_none(&look), -ENOENT);
    assert_int_equal(read_count, OBJECTS);
    assert_int_equal(blamed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_file_is_read_once, make_fixture, free_fixture),
        cmocka_unit_test_setup_teardown(test_unreadable_file_is_retried_later, make_fixture, free_fixture),
        cmocka_unit_test_setup_teardown(test_files_beyond_the_limit_are_read_later, make_fixture, free_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
