/* Samples are counted by line; a line beyond the bound is counted as one of the others. */
#include "aggregate/bpf_line_counts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_the_line_with_the_most_samples_comes_first(void **state)
{
    (void)state;
    struct bpf_line_counts c = {0};
    assert_null(bpf_line_counts_first(&c));
    bpf_line_counts_add(&c, "f", "a.c", 1, false);
    for (int i = 0; i < 3; i++)
        bpf_line_counts_add(&c, "f", "a.c", 2, i > 0);
    bpf_line_counts_add(&c, "a", "", 0, false); /* as many as line 1: the order is that of the names */
    const struct bpf_line_count *line = bpf_line_counts_first(&c);
    assert_string_equal(line->function, "f");
    assert_string_equal(line->file, "a.c");
    assert_int_equal(line->line, 2);
    assert_int_equal(line->samples, 3);
    assert_int_equal(line->called, 2);
    line = bpf_line_counts_next(line);
    assert_string_equal(line->function, "a");
    assert_string_equal(line->file, "");
    line = bpf_line_counts_next(line);
    assert_int_equal(line->line, 1);
    assert_int_equal(line->called, 0);
    assert_null(bpf_line_counts_next(line));
    assert_int_equal(c.others, 0);
    bpf_line_counts_clear(&c);
}

static void test_long_names_are_cut(void **state)
{
    (void)state;
    struct bpf_line_counts c = {0};
    char name[300];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    bpf_line_counts_add(&c, name, name, UINT32_MAX, false);
    const struct bpf_line_count *line = bpf_line_counts_first(&c);
    assert_int_equal(strlen(line->function), 255);
    assert_int_equal(strlen(line->file), 255);
    assert_int_equal(line->line, UINT32_MAX);
    bpf_line_counts_clear(&c);
}

static void test_lines_beyond_the_bound_are_counted_together(void **state)
{
    (void)state;
    struct bpf_line_counts c = {0};
    for (uint32_t i = 0; i < BPF_LINE_COUNTS_MAX + 5; i++)
        bpf_line_counts_add(&c, "f", "a.c", i, false);
    bpf_line_counts_add(&c, "f", "a.c", 0, false);
    assert_int_equal(c.others, 5);
    assert_int_equal(bpf_line_counts_first(&c)->samples, 2);
    bpf_line_counts_clear(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_line_with_the_most_samples_comes_first),
        cmocka_unit_test(test_long_names_are_cut),
        cmocka_unit_test(test_lines_beyond_the_bound_are_counted_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
