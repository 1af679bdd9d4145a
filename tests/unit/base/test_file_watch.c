/* file_watch.c: a change is reported once, when it has settled. */
#include "base/file_watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_a_change_is_reported_once_it_has_settled(void **state)
{
    char path[] = "/tmp/sonde-watch-XXXXXX";
    struct file_watch w;
    (void)state;
    close(mkstemp(path));
    file_watch_start(&w, path);
    assert_false(file_watch_has_changed(&w, path));
    write_text(path, "a");
    assert_false(file_watch_has_changed(&w, path)); /* it may still be written */
    write_text(path, "ab");
    assert_false(file_watch_has_changed(&w, path));
    assert_true(file_watch_has_changed(&w, path));
    assert_false(file_watch_has_changed(&w, path));
    unlink(path);
    assert_false(file_watch_has_changed(&w, path));
    assert_true(file_watch_has_changed(&w, path)); /* it is gone */
    assert_false(file_watch_has_changed(&w, path));
    write_text(path, "abc");
    assert_false(file_watch_has_changed(&w, path));
    assert_true(file_watch_has_changed(&w, path));
    unlink(path);
}

static void test_no_file_does_not_change(void **state)
{
    struct file_watch w;
    (void)state;
    file_watch_start(&w, NULL);
    assert_false(file_watch_has_changed(&w, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_change_is_reported_once_it_has_settled),
        cmocka_unit_test(test_no_file_does_not_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
