/* The text and JSON of `sonde io`. */
#include "cli/io/io_text.h"

#include "base/table_cell.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define SECOND 1000000000ull

static const struct io_row example = {
    .fields = {[IO_FIELD_JOB] = "systemd app.service", [IO_FIELD_PROCESS] = "815 app"},
    .syncs = 100,
    .time_ns = SECOND / 2};

static struct io_interval_text interval_of(const struct io_row *rows, size_t count)
{
    static const struct coverage coverage = {.asked_ns = SECOND, .observed_ns = SECOND, .is_answered = true};
    return (struct io_interval_text){.rows = rows,
                                     .count = count,
                                     .fields = 1u << IO_FIELD_JOB | 1u << IO_FIELD_PROCESS,
                                     .interval_ns = SECOND,
                                     .coverage = &coverage};
}

static char *text_of(const struct io_interval_text *t, struct buf *out)
{
    buf_clear(out);
    io_text_put(t, out);
    buf_putc(out, '\0');
    return (char *)out->data;
}

static void expect(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no \"%s\" in:\n%s", part, text);
}

static void test_io_time_is_defined_below_the_table(void **state)
{
    _cleanup_buf_ struct buf out = {0};
    const struct io_interval_text t = interval_of(&example, 1);
    (void)state;
    const char *text = text_of(&t, &out);
    expect(text, "IO TIME: time in I/O calls; 100 % is one thread that does nothing but I/O.");
    assert_null(strstr(text, "not attributed"));
    assert_null(strstr(text, "(by path)"));
}

static void test_operations_that_are_not_attributed(void **state)
{
    _cleanup_buf_ struct buf out = {0};
    struct io_interval_text t = interval_of(&example, 1);
    (void)state;
    t.attribution = (struct io_attribution){1000, 125};
    expect(text_of(&t, &out),
           "(not attributed): 12.5 % of the operations (125 of 1000) came when the kernel's table was "
           "full. Leave \"process\" out of --by: --by job,mount.");
    t.fields |= 1u << IO_FIELD_FILE;
    struct io_row row = example;
    row.fields[IO_FIELD_FILE] = "(by path)";
    t.rows = &row;
    const char *text = text_of(&t, &out);
    expect(text, "Leave \"file\" out of --by.");
    expect(text, "(by path): stat, unlink");
}

static void test_small_values_are_not_zero(void **state)
{
    _cleanup_buf_ struct buf out = {0};
    struct io_row row = example;
    row.syncs = 1;
    row.time_ns = 1000;
    struct io_interval_text t = interval_of(&row, 1);
    (void)state;
    t.interval_ns = 100 * SECOND;
    const char *text = text_of(&t, &out);
    expect(text, " <0.1 % ");
    expect(text, " <0.1 ");
    assert_null(strstr(text, "0.0"));
}

static void test_list_of_processes_names_its_order(void **state)
{
    _cleanup_buf_ struct buf out = {0};
    const struct io_busy busy[] = {
        {.command = "git", .is_several = true, .operation = "sync", .operations = 50, .ns = 5, .share = 0.98},
        {.command = "python3",
         .script = "journal.py",
         .process = 815,
         .operation = "sync",
         .operations = 1,
         .ns = 5,
         .share = 0.011,
         .files = 3,
         .path = "/srv/log",
         .path_share = 0.9},
        {.command = "cron", .process = 816, .operation = "sync", .operations = 1, .ns = 5, .share = 0.009}};
    struct io_interval_text t = interval_of(&example, 1);
    (void)state;
    t.busy = busy;
    t.busy_count = 3;
    t.order = IO_ORDER_SYNCS;
    const char *text = text_of(&t, &out);
    expect(text, "\nProcesses with the most syncs:\n");
    expect(text, "git (several)             sync      (by path)\n");
    expect(text, "815 python3 journal.py    sync      /srv/log and 2 more\n");
    assert_null(strstr(text, "cron"));
}

static void test_json_of_an_interval(void **state)
{
    _cleanup_buf_ struct buf out = {0};
    const struct io_busy busy = {
        .command = "git", .manager = "systemd", .job_id = "a", .is_several = true, .operation = "stat", .bytes = 7};
    struct io_interval_text t = interval_of(&example, 1);
    (void)state;
    t.attribution = (struct io_attribution){100, 3};
    t.busy = &busy;
    t.busy_count = 1;
    io_text_put_json(&t, &out);
    buf_putc(&out, '\0');
    expect((char *)out.data, "\"nothing\":\"\"");
    expect((char *)out.data, "\"operations\":100,\"operations_not_attributed\":3");
    expect((char *)out.data, "\"is_several_processes\":true,\"operation\":\"stat\",\"operations\":0,\"bytes\":7");
}

static void expect_cell(const char *text, int width, const char *expected)
{
    _cleanup_buf_ struct buf out = {0};
    table_cell_put_end(&out, text, width);
    buf_putc(&out, '\0');
    assert_string_equal((char *)out.data, expected);
}

static void test_long_cells_keep_their_end(void **state)
{
    (void)state;
    expect_cell("/a/b", 6, "/a/b  ");
    expect_cell("anything", 0, "anything");
    expect_cell("/system.slice/very/deep/app.service", 20, ".../deep/app.service");
    expect_cell("/system.slice/docker-0123456789abcdef.scope", 16, "...9abcdef.scope"); /* no slash near */
    expect_cell("/a/b/\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 8, ".../\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_io_time_is_defined_below_the_table),
        cmocka_unit_test(test_operations_that_are_not_attributed),
        cmocka_unit_test(test_small_values_are_not_zero),
        cmocka_unit_test(test_list_of_processes_names_its_order),
        cmocka_unit_test(test_json_of_an_interval),
        cmocka_unit_test(test_long_cells_keep_their_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
