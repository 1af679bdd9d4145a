/* line_answer.c: answers are read as they were written, and malformed answers are refused. */
#include "resolve/lines/line_answer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct line_answer answer;

static void put_two(struct buf *out)
{
    line_answer_begin(out, 7);
    line_answer_add(out, "/src/a.h", 12, "inner", "_ZL5innerv");
    line_answer_add(out, "/src/a.c", UINT32_MAX, "", "");
    assert_true(line_answer_finish(out, 2));
}

static void test_written_answer_is_read(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    put_two(&out);
    assert_int_equal(line_answer_read(out.data, out.size, &answer), 0);
    assert_int_equal(answer.kind, LINE_ANSWER_PLACE);
    assert_int_equal(answer.number, 7);
    assert_int_equal(answer.count, 2);
    assert_string_equal(answer.lines[0].file, "/src/a.h");
    assert_string_equal(answer.lines[0].name, "inner");
    assert_string_equal(answer.lines[0].system_name, "_ZL5innerv");
    assert_int_equal(answer.lines[0].line, 12);
    assert_string_equal(answer.lines[1].name, "");
    assert_int_equal(answer.lines[1].line, UINT32_MAX);
    line_answer_end(&out, LINE_STATUS_DAMAGED);
    assert_int_equal(line_answer_read(out.data, out.size, &answer), 0);
    assert_int_equal(answer.kind, LINE_ANSWER_END);
    assert_int_equal(answer.status, LINE_STATUS_DAMAGED);
}

static void test_truncated_answers_are_refused(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    put_two(&out);
    for (size_t size = 0; size < out.size; size++)
        assert_int_equal(line_answer_read(out.data, size, &answer), -EBADMSG);
    buf_putc(&out, 0);
    assert_int_equal(line_answer_read(out.data, out.size, &answer), -EBADMSG); /* nor more than expected */
    line_answer_end(&out, LINE_STATUS_COUNT);
    assert_int_equal(line_answer_read(out.data, out.size, &answer), -EBADMSG);
}

static void test_long_texts_are_truncated_and_controls_replaced(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    char text[2 * LINE_ANSWER_TEXT_MAX];
    memset(text, '\n', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    line_answer_begin(&out, 0);
    line_answer_add(&out, text, 1, "a\x7f\x1b[2Jb", "");
    assert_true(line_answer_finish(&out, 1));
    assert_int_equal(line_answer_read(out.data, out.size, &answer), 0);
    assert_int_equal(strspn(answer.lines[0].file, " "), LINE_ANSWER_TEXT_MAX);
    assert_int_equal(strlen(answer.lines[0].file), LINE_ANSWER_TEXT_MAX);
    assert_string_equal(answer.lines[0].name, "a  [2Jb");
}

static void test_counts_out_of_bounds_are_refused(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    put_two(&out);
    for (int count = 0; count < 256; count++) {
        out.data[5] = (char)count;
        assert_int_equal(line_answer_read(out.data, out.size, &answer), count == 2 ? 0 : -EBADMSG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_answer_is_read),
        cmocka_unit_test(test_truncated_answers_are_refused),
        cmocka_unit_test(test_long_texts_are_truncated_and_controls_replaced),
        cmocka_unit_test(test_counts_out_of_bounds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
