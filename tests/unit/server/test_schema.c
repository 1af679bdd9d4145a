/* The version of the tables: what is migrated, and what is refused. */
#include "server/schema.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Of version SCHEMA_VERSION. If this fails, tables.c has changed: raise SCHEMA_VERSION, so that programs that do not
 * know the change leave the tables alone, and write the new hash here. */
#define HASH 0x7bd77f94a420a0b3ull

static enum schema_state state_of(const char *found, struct buf *why)
{
    return schema_state(found, strlen(found), 30, why);
}

static void test_each_change_of_the_tables_has_a_version(void **state)
{
    (void)state;
    assert_int_equal(schema_hash(30), HASH);
    assert_int_not_equal(schema_hash(31), HASH);
}

/* Of no version, of an earlier one, or with other days: all are migrated. */
static void test_current_tables_are_not_migrated(void **state)
{
    _cleanup_buf_ struct buf why = {0};
    char found[100];
    (void)state;
    assert_int_equal(state_of("", &why), SCHEMA_IS_OLD);
    assert_int_equal(state_of("0\t1\t0.0.1\n", &why), SCHEMA_IS_OLD);
    snprintf(found, sizeof(found), "%d\t%" PRIu64 "\t0.1.0\n", SCHEMA_VERSION, schema_hash(31));
    assert_int_equal(state_of(found, &why), SCHEMA_IS_OLD);
    snprintf(found, sizeof(found), "%d\t%" PRIu64 "\t0.1.0\n", SCHEMA_VERSION, schema_hash(30));
    assert_int_equal(state_of(found, &why), SCHEMA_IS_CURRENT);
    assert_int_equal(why.size, 0);
}

static void test_newer_tables_are_refused(void **state)
{
    _cleanup_buf_ struct buf why = {0};
    (void)state;
    assert_int_equal(state_of("999\t1\t7.7.7\n", &why), SCHEMA_IS_NEWER);
    buf_putc(&why, '\0');
    assert_non_null(strstr(why.data, "version 999, of sonde 7.7.7"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_change_of_the_tables_has_a_version),
        cmocka_unit_test(test_current_tables_are_not_migrated),
        cmocka_unit_test(test_newer_tables_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
