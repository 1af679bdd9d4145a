/* Rows and lists of `sonde io` on a node where processes begin and end all the time. */
#include "io_report/io_rows.h"

#include "io_fake_source.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct io_rows *rows;
static struct io_row *list;
static size_t count;

static void begin(const char *by)
{
    unsigned fields = 0;
    fake_clear();
    assert_int_equal(io_rows_parse_fields(by, &fields), 0);
    assert_int_equal(io_rows_new(NULL, fields, &rows), 0);
    assert_int_equal(io_rows_refresh(rows), 0);
}

static void end_interval(enum io_order order)
{
    free(list);
    assert_int_equal(io_rows_refresh(rows), 0);
    assert_int_equal(io_rows_list(rows, order, &list, &count), 0);
}

static void end(void)
{
    free(list);
    list = NULL;
    io_rows_free(rows);
}

static const struct io_row *row_of(enum io_field field, const char *text)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].fields[field], text) == 0)
            return &list[i];
    for (size_t i = 0; i < count; i++)
        print_message("%s\n", list[i].fields[field]);
    fail_msg("no row %s", text);
    return NULL;
}

static void test_ended_processes_of_a_command_are_one_row(void **state)
{
    char both[64];
    (void)state;
    begin("process");
    for (int i = 0; i < 3; i++) {
        const uint32_t git = fake_ended_process();
        fake_name(git, "git");
        fake_count(git, IO_READ, 0, 2, 200);
        fake_count(git, IO_OPEN, 0, 1, 0);
        assert_int_equal(io_rows_sweep(rows), 0);
        assert_int_equal(fake_counters(), 0); /* the table has room for the next ones */
    }
    const uint32_t dd = fake_ended_process();
    fake_name(dd, "dd");
    fake_count(dd, IO_WRITE, 0, 5, 500);
    end_interval(IO_ORDER_OPERATIONS);
    assert_int_equal(count, 2);
    const struct io_row *row = row_of(IO_FIELD_PROCESS, "git (3 ended)");
    assert_int_equal(row->reads, 6);
    assert_int_equal(row->read_bytes, 600);
    assert_int_equal(row->others, 3);
    snprintf(both, sizeof(both), "%u dd (ended)", dd);
    assert_int_equal(row_of(IO_FIELD_PROCESS, both)->write_bytes, 500);
    end_interval(IO_ORDER_OPERATIONS);
    assert_int_equal(count, 0); /* each operation is in one interval */
    end();
}

static void test_a_process_keeps_its_row_until_it_ends(void **state)
{
    char own[64];
    (void)state;
    begin("process");
    fake_count((uint32_t)getpid(), IO_SYNC, 0, 4, 0);
    assert_int_equal(io_rows_sweep(rows), 0);
    assert_int_equal(fake_counters(), 1);
    fake_count((uint32_t)getpid(), IO_SYNC, 0, 1, 0);
    end_interval(IO_ORDER_SYNCS);
    assert_int_equal(count, 1);
    assert_int_equal(list[0].syncs, 5);
    snprintf(own, sizeof(own), "%d ", getpid());
    assert_memory_equal(list[0].fields[IO_FIELD_PROCESS], own, strlen(own));
    fake_count((uint32_t)getpid(), IO_SYNC, 0, 2, 0);
    end_interval(IO_ORDER_SYNCS);
    assert_int_equal(list[0].syncs, 2);
    end();
}

static void test_operations_without_room_are_not_attributed(void **state)
{
    (void)state;
    begin("job,process,file");
    fake_count((uint32_t)getpid(), IO_SYNC, 1, 10, 0);
    fake_count(0, IO_READ, 0, 30, 0); /* in the reserve: the job is known */
    fake_count_key(&(struct io_key){.cgroup_id = IO_OTHER, .operation = IO_OPEN}, 60, 0);
    end_interval(IO_ORDER_OPERATIONS);
    const struct io_attribution attribution = io_rows_attribution(list, count);
    assert_int_equal(attribution.operations, 100);
    assert_int_equal(attribution.missing, 90);
    assert_int_equal(count, 3);
    assert_string_equal(list[0].fields[IO_FIELD_JOB], "(not attributed)");
    assert_string_equal(list[0].fields[IO_FIELD_PROCESS], "(not attributed)");
    assert_string_equal(list[0].fields[IO_FIELD_FILE], "(not attributed)");
    assert_string_equal(list[1].fields[IO_FIELD_JOB], "systemd app.service");
    assert_string_equal(list[1].fields[IO_FIELD_PROCESS], "(not attributed)");
    assert_string_equal(list[2].fields[IO_FIELD_FILE], "/srv/file1");
    end();
}

static void test_calls_that_name_a_path_are_attributed(void **state)
{
    (void)state;
    begin("process,file");
    fake_count_key(&(struct io_key){.cgroup_id = FAKE_CGROUP, .process = (uint32_t)getpid(), .operation = IO_STAT}, 3,
                   0);
    end_interval(IO_ORDER_TIME);
    assert_int_equal(count, 1);
    assert_string_equal(list[0].fields[IO_FIELD_FILE], "(by path)");
    assert_int_equal(io_rows_attribution(list, count).missing, 0);
    end();
}

/* The largest entry, of many processes of one name, comes first. */
static void test_processes_of_one_name_are_listed_together(void **state)
{
    struct io_busy busy[8];
    (void)state;
    begin("job");
    fake_use("python3", 100, IO_SYNC, 1, &(struct io_use){.operations = 9, .ns = 400});
    for (uint32_t i = 0; i < 6; i++) {
        fake_use("git", 200 + i, IO_STAT, 0, &(struct io_use){.operations = 50, .ns = 100});
        assert_int_equal(io_rows_sweep(rows), 0);
    }
    end_interval(IO_ORDER_TIME);
    assert_int_equal(io_details_busiest(io_rows_details(rows), IO_ORDER_TIME, busy, 8), 2);
    assert_string_equal(busy[0].command, "git");
    assert_true(busy[0].is_several);
    assert_int_equal(busy[0].operations, 300);
    assert_int_equal(busy[0].files, 0);
    assert_true(busy[0].share == 0.6);
    assert_string_equal(busy[1].command, "python3");
    assert_false(busy[1].is_several);
    assert_int_equal(busy[1].process, 100);
    assert_string_equal(busy[1].path, "/srv/file1");
    end_interval(IO_ORDER_TIME);
    assert_int_equal(io_details_busiest(io_rows_details(rows), IO_ORDER_TIME, busy, 8), 0);
    end();
}

static void test_order_of_the_list_below(void **state)
{
    struct io_busy busy[8];
    (void)state;
    begin("job");
    fake_use("reader", 1, IO_READ, 1, &(struct io_use){.operations = 5, .ns = 900, .bytes = 10});
    fake_use("writer", 2, IO_WRITE, 1, &(struct io_use){.operations = 1, .ns = 10, .bytes = 5000});
    fake_use("writer", 2, IO_WRITE, 2, &(struct io_use){.operations = 1, .ns = 50, .bytes = 1000});
    fake_use("syncer", 3, IO_SYNC, 1, &(struct io_use){.operations = 2, .ns = 20});
    end_interval(IO_ORDER_SYNCS);
    struct io_details *d = io_rows_details(rows);
    assert_int_equal(io_details_busiest(d, IO_ORDER_SYNCS, busy, 8), 1);
    assert_string_equal(busy[0].command, "syncer");
    assert_int_equal(io_details_busiest(d, IO_ORDER_WRITE, busy, 8), 1);
    assert_string_equal(busy[0].command, "writer");
    assert_string_equal(busy[0].path, "/srv/file1"); /* with the most bytes, not the most time */
    assert_int_equal(busy[0].files, 2);
    assert_int_equal(io_details_busiest(d, IO_ORDER_BYTES, busy, 8), 2);
    assert_string_equal(busy[1].command, "reader");
    assert_int_equal(io_details_busiest(d, IO_ORDER_TIME, busy, 1), 1);
    assert_string_equal(busy[0].command, "reader");
    assert_int_equal(io_details_busiest(d, IO_ORDER_OPERATIONS, busy, 8), 3);
    end();
}

static void test_syncs_have_room_when_the_list_is_full(void **state)
{
    struct io_busy busy[8];
    (void)state;
    begin("job");
    for (uint64_t file = 1; file <= 65536 + 100; file++) {
        fake_use("reader", 1, IO_READ, file, &(struct io_use){.operations = 1, .ns = 10});
        if (file % 100 == 0)
            assert_int_equal(io_rows_sweep(rows), 0);
    }
    fake_use("syncer", 2, IO_SYNC, 7, &(struct io_use){.operations = 1, .ns = 10});
    end_interval(IO_ORDER_TIME);
    struct io_details *d = io_rows_details(rows);
    assert_int_equal(io_details_busiest(d, IO_ORDER_SYNCS, busy, 8), 1);
    assert_string_equal(busy[0].path, "/srv/file7");
    assert_int_equal(io_details_busiest(d, IO_ORDER_TIME, busy, 8), 2);
    assert_int_equal(busy[0].operations, 65536 + 100); /* of all files */
    assert_int_equal(busy[0].files, 65536 + 1);
    assert_string_equal(busy[0].path, "(files beyond the first 65536)");
    end();
}

/* Also of processes that have ended, which are named as in the table. */
static void test_failures_are_listed_by_command(void **state)
{
    struct io_failing failing[8];
    (void)state;
    begin("process");
    for (int i = 0; i < 3; i++) {
        const uint32_t cp = fake_ended_process();
        fake_name(cp, "cp");
        fake_fail(cp, IO_WRITE, ENOSPC, 2);
        fake_fail(cp, IO_OPEN, ENOENT, 50);
        assert_int_equal(io_rows_sweep(rows), 0);
    }
    const uint32_t helper = fake_ended_process();
    fake_name(helper, "sonde-files");
    fake_fail(helper, IO_OPEN, EACCES, 9);
    end_interval(IO_ORDER_TIME);
    assert_int_equal(io_details_failing(io_rows_details(rows), failing, 8), 2);
    assert_string_equal(failing[0].error, "ENOSPC");
    assert_string_equal(failing[0].command, "cp");
    assert_true(failing[0].is_several);
    assert_int_equal(failing[0].count, 6);
    assert_string_equal(failing[1].error, "ENOENT");
    assert_true(failing[1].is_expected);
    assert_int_equal(failing[1].count, 150);
    end();
}

static void test_orders_have_names(void **state)
{
    (void)state;
    enum io_order order = IO_ORDER_TIME;
    assert_int_equal(io_details_parse_order("operations", &order), 0);
    assert_int_equal(order, IO_ORDER_OPERATIONS);
    assert_int_equal(io_details_parse_order("syncs", &order), 0);
    assert_int_equal(order, IO_ORDER_SYNCS);
    assert_int_equal(io_details_parse_order("size", &order), -EINVAL);
    assert_int_equal(io_details_parse_order("", &order), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ended_processes_of_a_command_are_one_row),
        cmocka_unit_test(test_a_process_keeps_its_row_until_it_ends),
        cmocka_unit_test(test_operations_without_room_are_not_attributed),
        cmocka_unit_test(test_calls_that_name_a_path_are_attributed),
        cmocka_unit_test(test_processes_of_one_name_are_listed_together),
        cmocka_unit_test(test_order_of_the_list_below),
        cmocka_unit_test(test_orders_have_names),
        cmocka_unit_test(test_syncs_have_room_when_the_list_is_full),
        cmocka_unit_test(test_failures_are_listed_by_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
