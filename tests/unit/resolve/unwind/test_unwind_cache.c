/* The cache of unwind tables: rules that are looked up one by one equal the rules of the whole table, and open files
 * and memory have a bound. */
#include "resolve/unwind/unwind_cache.h"

#include "base/cleanup.h"
#include "resolve/elf/elf.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../object_by_path.h"

#define OBJECTS 100 /* more than the cache keeps open */
#define STEP    7   /* bytes between the addresses that are compared */

struct code {
    uint32_t start, end;
};

/* The file offsets of this program's code. */
static struct code own_code(void)
{
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    const struct elf_segment *segments;
    assert_int_equal(elf_open(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), &f), 0);
    const size_t count = elf_segments(f, &segments);
    for (size_t i = 0; i < count; i++)
        if (segments[i].executable)
            return (struct code){(uint32_t)segments[i].offset, (uint32_t)(segments[i].offset + segments[i].file_bytes)};
    fail();
    return (struct code){0};
}

static size_t open_files(void)
{
    size_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static struct unwind_cache *make_cache(uint64_t defer_above)
{
    struct unwind_cache *c = NULL;
    assert_int_equal(unwind_cache_new(1 << 20, &c), 0);
    unwind_cache_defer_above(c, defer_above);
    return c;
}

static struct object own_program(uint64_t id)
{
    return (struct object){.id = id, .path = "/proc/self/exe", .build_id = ""};
}

/* "No rule" has two forms: a table has a row that says so. */
static void find(struct unwind_cache *c, const struct object *o, uint32_t offset, struct unwind_rule *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->cfa = UNWIND_CFA_NONE;
    int r = unwind_cache_find(c, o, offset, ret);
    assert_true(r == 0 || r == -ENOENT);
}

static void test_single_rules_are_those_of_the_table(void **state)
{
    (void)state;
    const struct object o = own_program(1);
    struct unwind_cache *whole = make_cache(UINT64_MAX), *single = make_cache(0);
    const struct code code = own_code();
    size_t with_rule = 0;
    for (int round = 0; round < 2; round++) /* in the second some are cached */
        for (uint32_t at = code.start; at < code.end; at += STEP) {
            struct unwind_rule a, b;
            find(whole, &o, at, &a);
            find(single, &o, at, &b);
            if (b.cfa == UNWIND_CFA_NONE) /* the table has no rows for the padding between functions */
                continue;
            assert_memory_equal(&a, &b, sizeof(a));
            with_rule++;
        }
    assert_true(with_rule > (code.end - code.start) / STEP); /* most addresses, in two rounds */
    struct unwind_demand demand;
    assert_true(unwind_cache_demand(single, 1, &demand));
    assert_int_equal(demand.lookups, 2 * ((code.end - code.start + STEP - 1) / STEP));
    assert_true(demand.input_bytes > 0);
    assert_false(unwind_cache_demand(whole, 1, &demand));
    unwind_cache_free(whole);
    unwind_cache_free(single);
}

static void test_open_files_are_bounded_and_reopened(void **state)
{
    (void)state;
    struct unwind_cache *c = make_cache(0);
    const uint32_t middle = own_code().start + (own_code().end - own_code().start) / 2;
    const size_t before = open_files();
    struct unwind_rule first, again;
    for (int round = 0; round < 2; round++)
        for (uint64_t id = 1; id <= OBJECTS; id++) {
            const struct object o = own_program(id);
            find(c, &o, middle + (uint32_t)round, id == 1 && round == 0 ? &first : &again);
            assert_true(open_files() <= before + 64);
        }
    find(c, &(struct object){.id = OBJECTS + 1, .path = "/proc/self/exe", .build_id = ""}, middle, &again);
    assert_memory_equal(&first, &again, sizeof(first));
    unwind_cache_trim(c);
    assert_int_equal(open_files(), before);
    struct unwind_demand demand;
    assert_true(unwind_cache_demand(c, 1, &demand)); /* the demand is still known */
    unwind_cache_free(c);
}

static void test_published_table_is_released(void **state)
{
    (void)state;
    const struct object o = own_program(1);
    struct unwind_cache *c = make_cache(0);
    struct unwind_rule before, after;
    const uint32_t middle = own_code().start + (own_code().end - own_code().start) / 2;
    find(c, &o, middle, &before);
    const size_t bytes = unwind_cache_bytes(c);

    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    struct unwind_table *table = NULL;
    assert_int_equal(elf_open(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), &f), 0);
    assert_int_equal(cfi_build(f, &table), 0);
    unwind_cache_put(c, 1, table);
    assert_true(unwind_cache_bytes(c) > bytes);
    unwind_cache_published(c, 1);
    assert_int_equal(unwind_cache_bytes(c), bytes);
    struct unwind_demand demand;
    assert_true(unwind_cache_demand(c, 1, &demand));
    assert_int_equal(demand.lookups, 0); /* counted anew */
    find(c, &o, middle, &after);
    assert_memory_equal(&before, &after, sizeof(before));
    unwind_cache_free(c);
}

/* ---- a file system that stops to respond once the file is open ---- */

static bool is_unresponsive;

int __real_elf_read(const struct elf_file *f, uint64_t offset, void *data, size_t size);
int __wrap_elf_read(const struct elf_file *f, uint64_t offset, void *data, size_t size);
int __wrap_elf_read(const struct elf_file *f, uint64_t offset, void *data, size_t size)
{
    return is_unresponsive ? -ETIMEDOUT : __real_elf_read(f, offset, data, size);
}

int __wrap_elf_error(const struct elf_file *f);
int __wrap_elf_error(const struct elf_file *f)
{
    (void)f;
    return is_unresponsive ? -ETIMEDOUT : 0;
}

static double errors_of(const struct unwind_cache *c)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    assert_int_equal(metric_set_new(&set), 0);
    unwind_cache_metrics(c, set);
    for (size_t i = 0; i < metric_set_families(set); i++)
        if (strcmp(metric_set_family(set, i).name, "sonde_self_unwind_cache_errors") == 0)
            return metric_set_family(set, i).points[0].value;
    fail();
    return 0;
}

/* Expects a timeout, reported once for the file, and the right rule as soon as the file system responds. */
static void expect_timeout_then_rule(struct unwind_cache *c, const struct object *o, uint32_t offset)
{
    struct unwind_cache *whole = make_cache(UINT64_MAX);
    struct unwind_rule rule, expected;
    const unsigned reports = object_unreadable_reports;
    const double errors = errors_of(c);
    find(whole, o, offset, &expected);
    unwind_cache_free(whole);
    is_unresponsive = true;
    assert_int_equal(unwind_cache_find(c, o, offset, &rule), -ETIMEDOUT);
    assert_int_equal(object_unreadable_reports, reports + 1);
    assert_true(errors_of(c) == errors + 1);
    is_unresponsive = false;
    find(c, o, offset, &rule);
    assert_memory_equal(&rule, &expected, sizeof(rule));
}

static void test_timeout_of_the_search_table_is_temporary(void **state)
{
    (void)state;
    const struct object o = own_program(1);
    const uint32_t middle = own_code().start + (own_code().end - own_code().start) / 2;
    struct unwind_cache *c = make_cache(0);
    expect_timeout_then_rule(c, &o, middle); /* when the file is first needed */
    unwind_cache_trim(c);
    expect_timeout_then_rule(c, &o, middle + 1); /* when it is opened again; the first rule may be cached */
    unwind_cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_rules_are_those_of_the_table),
        cmocka_unit_test(test_open_files_are_bounded_and_reopened),
        cmocka_unit_test(test_published_table_is_released),
        cmocka_unit_test(test_timeout_of_the_search_table_is_temporary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
