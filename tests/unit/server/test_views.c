/* Which views are created or replaced at a start. */
#include "server/views.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static enum view_state state_of(size_t view, const char *found)
{
    return view_state(view, found, strlen(found));
}

/* The engine gives the comment that the statement set, and the end of a line. */
static void test_own_views_are_recognised_by_their_comment(void **state)
{
    (void)state;
    for (size_t view = 0; view < views_count(); view++) {
        _cleanup_buf_ struct buf sql = {0}, found = {0};
        view_put_create(&sql, view);
        buf_putc(&sql, '\0');
        const char *comment = strstr(sql.data, " COMMENT '") + strlen(" COMMENT '");
        buf_printf(&found, "%.*s\n", (int)(strrchr(comment, '\'') - comment), comment);
        assert_int_equal(view_state(view, found.data, found.size), VIEW_IS_CURRENT);
        assert_int_equal(view_state((view + 1) % views_count(), found.data, found.size), VIEW_IS_OLD);
    }
}

static void test_others_are_missing_or_foreign(void **state)
{
    (void)state;
    assert_int_equal(state_of(0, ""), VIEW_IS_MISSING);
    assert_int_equal(state_of(0, "\n"), VIEW_IS_FOREIGN);
    assert_int_equal(state_of(0, "my requests\n"), VIEW_IS_FOREIGN);
    assert_int_equal(state_of(0, "made by sonde server, 0\n"), VIEW_IS_OLD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_views_are_recognised_by_their_comment),
        cmocka_unit_test(test_others_are_missing_or_foreign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
