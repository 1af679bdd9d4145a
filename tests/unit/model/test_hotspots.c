/* hotspots.c: rows and the rest sum exactly to the total; the order of rows, and a stable order for ties. */
#include "model/hotspots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../fixture.h"

#define SECOND  UINT64_C(1000000000)
#define WINDOWS 4

struct added {
    uint32_t window, pid;
    uint64_t value;
    const char *frames[4]; /* leaf first */
};

static struct hotspots *hotspots_of(const struct hotspots_options *options, const struct profile_filter *filter,
                                    const struct added *added, size_t count)
{
    struct hotspots *h = NULL;
    assert_int_equal(hotspots_new(options, WINDOWS, &h), 0);
    for (uint32_t i = 0; i < WINDOWS; i++) {
        _cleanup_(profile_freep) struct profile *p = NULL;
        assert_int_equal(profile_new(0, &p), 0);
        for (size_t j = 0; j < count; j++) {
            const struct resource resource = fixture_resource(added[j].pid, "c");
            struct frame frames[4];
            size_t depth = 0;
            while (depth < 4 && added[j].frames[depth]) {
                frames[depth] = fixture_native(added[j].frames[depth]);
                frames[depth].address += j; /* one function at many addresses */
                depth++;
            }
            if (added[j].window == i)
                assert_int_equal(fixture_add(p, &resource, 1, "t", added[j].value, frames, depth), 0);
        }
        h->windows[i] =
            (struct hotspots_window){.start_ns = i * SECOND, .end_ns = (i + 1) * SECOND, .duration_ns = SECOND};
        assert_int_equal(hotspots_add(h, i, p, filter), 0);
    }
    return h;
}

static struct hotspots *finished(const struct hotspots_options *options, const struct profile_filter *filter,
                                 const struct added *added, size_t count)
{
    struct hotspots *h = hotspots_of(options, filter, added, count);
    assert_int_equal(hotspots_finish(h), 0);
    return h;
}

static const struct added some[] = {
    {0, 1, 500, {"steady", "main"}},
    {1, 1, 500, {"steady", "main"}},
    {2, 1, 500, {"steady", "main"}},
    {3, 1, 500, {"steady", "main"}},
    {2, 2, 400, {"late", "main"}},
    {3, 2, 700, {"late", "main"}},
    {1, 1, 30, {"deep", "deep", "main"}},
    {1, 1, 12, {"deep", "main"}},
    {0, 1, 7, {"b", "main"}},
    {0, 1, 7, {"a", "main"}},
    {3, 1, 5, {NULL}},
};

static void expect_names(const struct hotspots *h, const char *names)
{
    char seen[256] = "";
    for (uint32_t i = 0; i < h->row_count; i++)
        snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%s%s", i ? " " : "", h->rows[i].function);
    assert_string_equal(seen, names);
}

static void test_top_rows_and_others_sum_to_the_total(void **state)
{
    (void)state;
    _cleanup_(hotspots_freep) struct hotspots *h =
        finished(&(struct hotspots_options){.max = 3}, NULL, some, array_size(some));
    expect_names(h, "steady late deep");
    assert_int_equal(h->function_count, 6);
    const uint64_t expected[3][WINDOWS] = {{500, 500, 500, 500}, {0, 0, 400, 700}, {0, 42, 0, 0}};
    const uint64_t others[WINDOWS] = {14, 0, 0, 5};
    for (uint32_t i = 0; i < WINDOWS; i++) {
        for (uint32_t row = 0; row < 3; row++)
            assert_int_equal(h->rows[row].values[i], expected[row][i]);
        assert_int_equal(h->windows[i].others, others[i]);
    }
    assert_int_equal(h->rows[1].value, 1100);
}

static void test_ties_are_ordered_by_name(void **state)
{
    (void)state;
    static const struct added equal[] = {{0, 1, 9, {"d"}}, {0, 1, 9, {"b"}}, {0, 1, 9, {"c"}}, {0, 1, 9, {"a"}}};
    for (int by_change = 0; by_change < 2; by_change++) {
        _cleanup_(hotspots_freep) struct hotspots *h =
            finished(&(struct hotspots_options){.by_change = by_change, .max = 3}, NULL, equal, array_size(equal));
        expect_names(h, "a b c");
        assert_int_equal(h->windows[0].others, 9);
    }
}

static void test_largest_change_is_first(void **state)
{
    (void)state;
    _cleanup_(hotspots_freep) struct hotspots *h =
        finished(&(struct hotspots_options){.by_change = true, .max = 9}, NULL, some, array_size(some));
    expect_names(h, "late deep a b [truncated: no stack] steady");
    /* No rate is computed for a window that was hardly monitored: there, one sample would be 100 %. */
    _cleanup_(hotspots_freep) struct hotspots *partly =
        hotspots_of(&(struct hotspots_options){.by_change = true, .max = 1}, NULL, some, array_size(some));
    partly->windows[2].duration_ns = partly->windows[3].duration_ns = SECOND / 10;
    assert_int_equal(hotspots_finish(partly), 0);
    expect_names(partly, "deep");
}

static void test_total_weights_count_recursion_once(void **state)
{
    (void)state;
    _cleanup_(hotspots_freep) struct hotspots *h =
        finished(&(struct hotspots_options){.total = true, .max = 4}, NULL, some, array_size(some));
    expect_names(h, "main steady late deep");
    const uint64_t all[WINDOWS] = {514, 542, 900, 1200};
    for (uint32_t i = 0; i < WINDOWS; i++) {
        assert_int_equal(h->rows[0].values[i], all[i]); /* a recursive function is counted once */
        assert_int_equal(h->windows[i].value, all[i] + (i == 3 ? 5 : 0));
        assert_int_equal(h->windows[i].others, 0);
    }
    assert_int_equal(h->rows[3].value, 42);
}

static void test_filter_by_process(void **state)
{
    (void)state;
    _cleanup_(hotspots_freep) struct hotspots *h =
        finished(&(struct hotspots_options){.max = 9}, &(struct profile_filter){.pid = 2}, some, array_size(some));
    expect_names(h, "late");
    assert_int_equal(h->windows[0].value + h->windows[1].value, 0);
    assert_int_equal(h->windows[3].value, 700);
}

/* Equal names of different functions, and different frames of one function. */
static void test_functions_differ_by_file_and_kind(void **state)
{
    (void)state;
    _cleanup_(hotspots_freep) struct hotspots *h = NULL;
    _cleanup_(profile_freep) struct profile *p = NULL;
    const struct resource resource = fixture_resource(1, "c");
    const struct frame frames[] = {fixture_frame(FRAME_NATIVE, "f", "/b", 1), fixture_frame(FRAME_NATIVE, "f", "/b", 2),
                                   fixture_frame(FRAME_NATIVE, "f", "/a", 1), fixture_frame(FRAME_KERNEL, "f", "/a", 1),
                                   fixture_frame(FRAME_NATIVE, "", "/lib/x.so", 0x10)};
    assert_int_equal(profile_new(0, &p), 0);
    for (size_t i = 0; i < array_size(frames); i++)
        assert_int_equal(fixture_add(p, &resource, 1, "t", 4, &frames[i], 1), 0);
    assert_int_equal(hotspots_new(&(struct hotspots_options){.max = 9}, 1, &h), 0);
    assert_int_equal(hotspots_add(h, 0, p, NULL), 0);
    assert_int_equal(hotspots_finish(h), 0);
    expect_names(h, "f f f x.so+0x10");
    assert_string_equal(h->rows[0].mapping, "/b");
    assert_int_equal(h->rows[0].value, 8);
    assert_int_equal(h->rows[1].kind, FRAME_NATIVE);
    assert_int_equal(h->rows[2].kind, FRAME_KERNEL);
}

static void test_empty_profiles(void **state)
{
    (void)state;
    _cleanup_(hotspots_freep) struct hotspots *h = NULL;
    assert_int_equal(hotspots_new(&(struct hotspots_options){.max = 9}, 0, &h), 0);
    assert_int_equal(hotspots_finish(h), 0);
    assert_int_equal(h->row_count, 0);
    hotspots_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_top_rows_and_others_sum_to_the_total),
        cmocka_unit_test(test_ties_are_ordered_by_name),
        cmocka_unit_test(test_largest_change_is_first),
        cmocka_unit_test(test_total_weights_count_recursion_once),
        cmocka_unit_test(test_filter_by_process),
        cmocka_unit_test(test_functions_differ_by_file_and_kind),
        cmocka_unit_test(test_empty_profiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
