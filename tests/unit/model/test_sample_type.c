/* sample_type.c: types are found by name and compared by name and unit; profiles copy types that are not constants. */
#include "model/sample_type.h"

#include "model/profile.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_types_are_found_by_name(void **state)
{
    (void)state;
    assert_ptr_equal(sample_type_find("cpu"), &sample_type_cpu);
    assert_ptr_equal(sample_type_find("off_cpu"), &sample_type_off_cpu);
    assert_ptr_equal(sample_type_find("wall"), &sample_type_wall);
    assert_null(sample_type_find("page-faults"));
    assert_null(sample_type_find(""));
}

static void test_name_and_unit_identify_a_type(void **state)
{
    (void)state;
    const struct sample_type nanoseconds = sample_type_of_event("cpu", "nanoseconds"),
                             milliseconds = sample_type_of_event("cpu", "milliseconds");
    assert_true(sample_type_equal(&sample_type_cpu, &nanoseconds));
    assert_false(sample_type_equal(&sample_type_cpu, &milliseconds));
    assert_false(sample_type_equal(&sample_type_cpu, &sample_type_off_cpu));
    assert_true(sample_type_is_time(&nanoseconds));
    assert_false(sample_type_is_time(&milliseconds));
}

static void test_profile_copies_the_type(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    char name[] = "mmap", unit[] = "bytes";
    const struct sample_type type = sample_type_of_event(name, unit);
    assert_int_equal(profile_new(0, &p), 0);
    assert_ptr_equal(p->type, &sample_type_cpu);
    assert_int_equal(profile_set_type(p, &type), 0);
    memset(name, 'x', sizeof(name) - 1);
    memset(unit, 'x', sizeof(unit) - 1);
    assert_string_equal(p->type->name, "mmap");
    assert_string_equal(p->type->unit, "bytes");
    assert_string_equal(p->type->counts, "samples");
    const struct sample_type equal = sample_type_of_event("off_cpu", "nanoseconds");
    assert_int_equal(profile_set_type(p, &equal), 0);
    assert_ptr_equal(p->type, &sample_type_off_cpu);
}

static void test_full_profile_keeps_its_type(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    static char name[1 << 20];
    memset(name, 'x', sizeof(name) - 1);
    const struct sample_type type = sample_type_of_event(name, "count");
    assert_int_equal(profile_new(1 << 16, &p), 0);
    assert_int_equal(profile_set_type(p, &type), -ENOSPC);
    assert_ptr_equal(p->type, &sample_type_cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_are_found_by_name),
        cmocka_unit_test(test_name_and_unit_identify_a_type),
        cmocka_unit_test(test_profile_copies_the_type),
        cmocka_unit_test(test_full_profile_keeps_its_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
