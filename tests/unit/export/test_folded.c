/* folded.c: exact lines. */
#include "export/export.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../fixture.h"

static void expect_folded(const struct profile *p, const char *expected)
{
    _cleanup_buf_ struct buf out = {0};
    assert_int_equal(exporter_folded.write(p, &out), 0);
    assert_string_equal(out.data ? out.data : "", expected);
}

static void test_typical_profile_lines(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    fixture_typical(p);
    expect_folded(p, "python3;[truncated: no stack] 1\n"
                     "python3;[truncated: no unwind table];libcuda.so.1+0x4711 1\n"
                     "python3;[truncated: no unwind table];libcuda.so.1+0x4711;[nvidia]+0xffffffffc0001234_[k] 1\n"
                     "python3;vfs_read_[k];bpf_prog_cafe_filter_[k] 1\n"
                     "server;__libc_start_main;main;std::vector<int>::push_back(int&&) 5\n"
                     "server;__libc_start_main;main;vfs_read_[k] 1\n");
}

/* Equal time gives equal counts at any sampling rate, and at least 1. */
static void test_counts_follow_weight(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    p->period = 1000000000 / 99;
    struct resource often = fixture_resource(1, "often"), seldom = fixture_resource(2, "seldom");
    struct frame main_frame = fixture_native("main");
    for (int i = 0; i < 99; i++)
        fixture_add(p, &often, 1, "t", 1000000000 / 99, &main_frame, 1);
    for (int i = 0; i < 19; i++)
        fixture_add(p, &seldom, 2, "t", 1000000000 / 19, &main_frame, 1);
    expect_folded(p, "often;main 99\nseldom;main 99\n");
}

static void test_empty_profile(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    expect_folded(p, "");
}

/* A function is one line of the output for all its source lines, and a separate one per file. */
static void test_interpreted_functions_have_their_file(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    struct resource a = fixture_resource(1, "a");
    struct frame frames[4];
    for (size_t i = 0; i < 4; i++) {
        frames[i] = fixture_native("A.run");
        frames[i].kind = FRAME_INTERPRETED;
        frames[i].mapping = "";
        frames[i].file = i < 2 ? "/home/x;y.py" : i == 2 ? "<string>" : "";
        frames[i].line = (uint32_t)i + 1;
        fixture_add(p, &a, 1, "t", 1, &frames[i], 1);
    }
    expect_folded(p, "a;A.run 1\na;A.run (<string>) 1\na;A.run (x:y.py) 2\n");
}

/* Processes of one name are one line; characters that the format cannot express are replaced, and lines that become
 * equal are joined. */
static void test_equal_lines_are_joined(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    struct resource a = fixture_resource(1, "a"), b = fixture_resource(2, "a"), none = fixture_resource(3, "");
    struct frame frames[] = {fixture_native("x;y"), fixture_native("x:y"),
                             fixture_native("l\ni\x7f\xff"
                                            "e")};
    fixture_add(p, &a, 1, "t", 1, &frames[0], 1);
    fixture_add(p, &b, 1, "t", 1, &frames[1], 1);
    fixture_add(p, &none, 1, "t", 1, &frames[2], 1);
    expect_folded(p, "[unknown];l i \xef\xbf\xbd"
                     "e 1\na;x:y 2\n");
}

/* Insertion order does not matter. */
static void test_output_does_not_depend_on_insertion_order(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL, *q = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    assert_int_equal(profile_new(0, &q), 0);
    struct resource resource = fixture_resource(1, "c");
    for (int i = 0; i < 500; i++) {
        char one[16], other[16];
        snprintf(one, sizeof(one), "f%d", i % 50);
        snprintf(other, sizeof(other), "f%d", (499 - i) % 50);
        struct frame forwards[] = {fixture_native(one), fixture_native("m")},
                     backwards[] = {fixture_native(other), fixture_native("m")};
        fixture_add(p, &resource, i, "t", 1, forwards, 1 + i % 2);
        fixture_add(q, &resource, i, "t", 1, backwards, 1 + (499 - i) % 2);
    }
    _cleanup_buf_ struct buf a = {0}, b = {0};
    assert_int_equal(exporter_folded.write(p, &a), 0);
    assert_int_equal(exporter_folded.write(q, &b), 0);
    assert_string_equal(a.data, b.data);
}

/* The counts sum to the number of samples, whatever the names; each line ends with one count. */
static void test_counts_are_preserved(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    fixture_typical(p);
    fixture_hostile(p);
    fixture_deep(p, 1000);
    _cleanup_buf_ struct buf out = {0};
    assert_int_equal(exporter_folded.write(p, &out), 0);
    uint64_t sum = 0;
    for (char *line = out.data, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        *end = '\0';
        char *stop;
        sum += strtoull(strrchr(line, ' '), &stop, 10);
        assert_ptr_equal(stop, end);
    }
    assert_int_equal(sum, fixture_count(p));
}

static void test_full_buffer_is_an_error(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    fixture_typical(p);
    for (const struct exporter *const *e = exporters; *e; e++) {
        _cleanup_buf_ struct buf out = {.max_bytes = 40};
        assert_true((*e)->write(p, &out) < 0);
    }
}

/* For waiting time the numbers are microseconds, summed over all entries of a line. */
static void test_waits_are_in_microseconds(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    struct resource a = fixture_resource(1, "a");
    const struct frame frames[] = {fixture_frame(FRAME_WAIT, "[lock: futex]", "", 0), fixture_native("f")};
    fixture_add(p, &a, 1, "t", 1500, frames, 2);
    fixture_add(p, &a, 2, "t", 2500, frames, 2);
    expect_folded(p, "a;f;[lock: futex] 2\n");
    p->type = &sample_type_off_cpu;
    expect_folded(p, "a;f;[lock: futex] 4\n");
    p->type = &sample_type_wall;
    expect_folded(p, "a;f;[lock: futex] 4\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_typical_profile_lines),
        cmocka_unit_test(test_counts_follow_weight),
        cmocka_unit_test(test_empty_profile),
        cmocka_unit_test(test_waits_are_in_microseconds),
        cmocka_unit_test(test_equal_lines_are_joined),
        cmocka_unit_test(test_interpreted_functions_have_their_file),
        cmocka_unit_test(test_output_does_not_depend_on_insertion_order),
        cmocka_unit_test(test_counts_are_preserved),
        cmocka_unit_test(test_full_buffer_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
