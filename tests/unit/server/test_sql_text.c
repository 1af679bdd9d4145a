/* Which texts are passed to the engine. */
#include "server/sql_text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static int check(const char *text, struct sql_text *ret)
{
    const char *why = NULL;
    const int r = sql_text_check(text, strlen(text), ret, &why);
    assert_int_equal(r < 0, why != NULL);
    return r;
}

static void test_reading_statements_are_accepted(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "SELECT 1",
        " \n-- a comment\nselect 1;",
        "/* a */ WITH 1 AS a SELECT a ; -- the end",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "SHOW TABLES",
        "DESCRIBE otel_traces",
        "EXPLAIN SELECT 1",
        "EXISTS otel_traces",
        "SELECT 'INTO OUTFILE; DROP TABLE $x \xe2\x80\x98 \\' it''s', \"a\\\"b\", `c;d`",
        "SELECT x, b FROM t WHERE outfiles = 1 # a comment",
        "SELECT name, settings_ FROM system /* */ . settings WHERE name = 'SETTINGS readonly = 0'",
        "SELECT \"settings\" FROM system.merge_tree_settings",
        "SELECT 1 // a comment\n /* a *//**/ - -1, 7 // 2",
    };
    struct sql_text text;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(check(texts[i], &text), 0);
}

static void test_others_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        " -- nothing",
        "INSERT INTO t VALUES (1)",
        "/* SELECT */ DROP TABLE t",
        "KILL QUERY WHERE 1",
        "USE default",
        "SET readonly = 0",
        "1",
        "SELECTS 1",
        "SELECT 1 INTO OUTFILE 'x'",
        "SELECT 1 INTO/**/outfile'x'",
        "SELECT 1; SELECT 2",
        "SELECT 1;;",
        "SELECT 'a\\'; DROP TABLE t; --' INTO OUTFILE 'x'",
        "SELECT $a$ ' $a$ INTO OUTFILE 'x' --'",
        "SELECT \xe2\x80\x98'\xe2\x80\x99 INTO OUTFILE 'x'",
        "SELECT x'\\' INTO OUTFILE 'x' --'",
        "SELECT 1 // '\n INTO OUTFILE '/DATA/x' TRUNCATE -- '",
        "SELECT 1 /* /* */ ' */ INTO OUTFILE '/DATA/x' -- '",
        "/*/ SELECT '*/ KILL QUERY WHERE 1 -- '",
        "/*/*/ SELECT '*/*/ KILL QUERY WHERE 1 -- '",
        "SELECT 1 /* not closed",
        "SELECT 1 /*/",
        "SELECT 1e--'\n INTO OUTFILE 'x' -- '",
        "SELECT 1\\G KILL QUERY WHERE 1",
        "SELECT * FROM (SELECT 1 SETTINGS readonly = 0)",
        "SELECT * FROM (SELECT 1. settings readonly = 0)",
        "WITH a AS (SELECT 1 AS b FROM (system).SETTINGS readonly = 0) SELECT b FROM a",
        "SELECT 1 PARALLEL WITH KILL QUERY WHERE 1",
    };
    struct sql_text text;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(check(texts[i], &text), -EACCES);
    const char *why;
    assert_int_equal(sql_text_check("SELECT 1\0 INTO OUTFILE 'x'", 27, &text, &why), -EACCES);
}

static void test_format_is_found(void **state)
{
    (void)state;
    struct sql_text text;
    assert_int_equal(check("SELECT 'FORMAT CSV'", &text), 0);
    assert_string_equal(text.format, "");
    assert_int_equal(check("SELECT 1 format /* */ JSONEachRow ;", &text), 0);
    assert_string_equal(text.format, "JSONEachRow");
    assert_true(sql_name_is_plain("RowBinary_2"));
    assert_false(sql_name_is_plain("CSV INTO OUTFILE"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reading_statements_are_accepted),
        cmocka_unit_test(test_others_are_refused),
        cmocka_unit_test(test_format_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
