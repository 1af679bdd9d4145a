/* The rules of I/O findings about processes, and the time that all findings are a share of. */
#include "base/cleanup.h"

#include "io_reports.h"

/* ---- processes ---- */

/* Each process reads one file of its own, in pieces of 1 MiB, at the speed of the page cache. */
static void fill_ranks(struct io_report_file files[5], const uint64_t times_ns[5], const uint64_t pieces[5])
{
    static const char *const paths[] = {"/r0", "/r1", "/r2", "/r3", "/r4"};
    for (uint32_t i = 0; i < 5; i++) {
        files[i] = file_of(paths[i], i);
        files[i].reads = stream_of(pieces[i], MIB, times_ns[i]);
    }
}

static bool ranks_have(const char *name, const uint64_t times_ns[5], const uint64_t pieces[5])
{
    struct io_report_file files[5];
    fill_ranks(files, times_ns, pieces);
    const struct io_report report = report_of(files, 5, 5);
    const struct io_findings findings = find_in(&report);
    return find_named(&findings, name, "") != NULL;
}

static const uint64_t equal_pieces[5] = {1000, 1000, 1000, 1000, 1000};

static void test_straggler(void **state)
{
    (void)state;
    struct io_report_file files[5];
    fill_ranks(files, (uint64_t[]){S, S, 9 * S, S, S}, equal_pieces);
    const struct io_report report = report_of(files, 5, 5);
    const struct io_findings findings = find_in(&report);
    const struct io_finding *straggler = find_named(&findings, "straggler", "");
    assert_non_null(straggler);
    assert_null(find_named(&findings, "unbalanced", ""));
    assert_int_equal(straggler->process, 2);
    assert_null(straggler->file);
    assert_int_equal(straggler->time_ns, 8 * S);
    assert_float_equal(straggler->share, 0.08, 0.0001);
    assert_int_equal(figure(straggler, "processes"), 5);
    assert_int_equal(figure(straggler, "median_time"), S);
    assert_string_equal(straggler->sentence,
                        "Find out what delays this process, its files or its CPU, as it moves no more than others: its "
                        "I/O took 9.00 s for 1000 MiB, while the median of 5 processes is 1.00 s for 1000 MiB.");
}

static void test_straggler_near_misses(void **state)
{
    (void)state;
    assert_false(ranks_have("straggler", (uint64_t[]){5 * S, 5 * S, 9 * S, 5 * S, 5 * S}, equal_pieces));
    assert_false(ranks_have("straggler", (uint64_t[]){S, S, 9 * S, S, 7 * S}, equal_pieces)); /* two are slow */
    assert_false(ranks_have("straggler", (uint64_t[]){S, S, 2 * S - 1, S, S}, equal_pieces));
}

/* Processes that are in the report for their waits only. */
static void test_processes_without_io_do_not_count(void **state)
{
    (void)state;
    struct io_report_file files[5];
    fill_ranks(files, (uint64_t[]){9 * S, S, S, S, S}, equal_pieces);
    const struct io_report three_of_five = report_of(files, 3, 5);
    const struct io_findings findings = find_in(&three_of_five);
    assert_null(find_named(&findings, "straggler", ""));
}

static void test_three_processes_have_no_straggler(void **state)
{
    (void)state;
    struct io_report_file files[5];
    fill_ranks(files, (uint64_t[]){S, S, 9 * S, 5 * S, S}, equal_pieces);
    const struct io_report report = report_of(files, 3, 3);
    const struct io_findings findings = find_in(&report);
    assert_null(find_named(&findings, "straggler", ""));
}

static void test_processes_of_other_programs_are_not_compared(void **state)
{
    (void)state;
    struct io_report_file files[] = {file_of("/r0", 0), file_of("/r1", 1), file_of("/r2", 2), file_of("/m", 5)};
    for (size_t i = 0; i < array_size(files); i++)
        files[i].reads = stream_of(1000, MIB, (i == 3 ? 9 : 1) * S);
    const struct io_report report = report_of(files, 4, 6); /* two ranks used no file: their median is 1 s, too */
    const struct io_findings findings = find_in(&report);
    assert_null(find_named(&findings, "straggler", ""));
}

static void test_unbalanced(void **state)
{
    (void)state;
    const uint64_t times_ns[] = {10 * S, S, S, S, S}, pieces[] = {10000, 1000, 1000, 1000, 1000};
    struct io_report_file files[5];
    fill_ranks(files, times_ns, pieces);
    const struct io_report report = report_of(files, 5, 5);
    const struct io_findings findings = find_in(&report);
    const struct io_finding *unbalanced = find_named(&findings, "unbalanced", "");
    assert_non_null(unbalanced);
    assert_int_equal(unbalanced->process, 0);
    assert_int_equal(unbalanced->time_ns, 9 * S);
    assert_int_equal(figure(unbalanced, "median_moved"), 1000 * MIB);
    assert_non_null(strstr(unbalanced->sentence, "this one moved 9.77 GiB, the median of 5 processes 1000 MiB"));
    const struct io_finding *straggler = find_named(&findings, "straggler", "");
    assert_non_null(straggler);
    assert_non_null(strstr(straggler->sentence, "Give this process less to read and write"));
}

static void test_unbalanced_near_misses(void **state)
{
    (void)state;
    const uint64_t slow[] = {10 * S, S, S, S, S};
    assert_false(ranks_have("unbalanced", slow, (uint64_t[]){1000, 700, 700, 700, 700}));
    assert_true(ranks_have("unbalanced", slow, (uint64_t[]){1000, 699, 699, 699, 699}));
    assert_false(ranks_have("unbalanced", (uint64_t[]){S, S, S, S, S}, (uint64_t[]){10000, 1000, 1000, 1000, 1000}));
}

/* ---- observed time ---- */

static void test_time_of_equal_processes_is_shared(void **state)
{
    (void)state;
    struct io_report_file files[5];
    for (uint32_t i = 0; i < 5; i++) {
        files[i] = file_of("/shared", i);
        files[i].reads = stream_of(100000, 4 * KIB, 10 * S);
    }
    struct io_report report = report_of(files, 5, 5);
    struct io_findings findings = find_in(&report);
    assert_float_equal(find_named(&findings, "small_accesses", "read")->share, 0.1, 0.0001);
    for (uint32_t i = 0; i < 5; i++) /* one after the other */
        files[i].reads.time = (struct io_report_time){i * 10 * S, (i + 1) * 10 * S, 10 * S};
    findings = find_in(&report);
    assert_float_equal(find_named(&findings, "small_accesses", "read")->share, 0.5, 0.0001);
}

/* The others wait for the process that writes a checkpoint. */
static void test_time_of_one_process_is_a_share_of_the_duration(void **state)
{
    (void)state;
    struct io_report_file files[5];
    for (uint32_t i = 0; i < 5; i++) {
        files[i] = file_of("/shared", i);
        files[i].reads = stream_of(1000, MIB, S);
    }
    files[3].syncs = 100;
    files[3].sync = files[3].metadata = (struct io_report_time){1, 50 * S, 4 * S};
    const struct io_report report = report_of(files, 5, 5);
    const struct io_findings findings = find_in(&report);
    const struct io_finding *sync = find_named(&findings, "sync_bound", "");
    assert_non_null(sync);
    assert_float_equal(sync->share, 0.04, 0.0001);
    assert_int_equal(sync->process, 3);
    assert_ptr_equal(sync->file, &files[3]);
    assert_int_equal(sync->other_files, 0);
}

static void test_random_reads_of_one_process_of_many(void **state)
{
    (void)state;
    struct io_report_file files[5];
    for (uint32_t i = 0; i < 5; i++) {
        files[i] = random_file(100000, i == 2 ? 90000 : 100, 4 * KIB, 40 * S);
        files[i].process = i;
    }
    const struct io_report report = report_of(files, 5, 5);
    const struct io_findings findings = find_in(&report);
    const struct io_finding *random = find_named(&findings, "random_accesses", "read");
    assert_non_null(random);
    assert_int_equal(random->process, 2);
    assert_int_equal(figure(random, "operations"), 90000);
    assert_float_equal(random->share, 0.36, 0.0001);
}

static void test_idle_parent_does_not_count(void **state)
{
    (void)state;
    struct io_report_file files[] = {file_of("/data", 0), file_of("/etc/profile", 5)};
    files[0].reads = stream_of(100000, 4 * KIB, 10 * S);
    files[1].reads = stream_of(10, 4 * KIB, MS);
    const struct io_report report = report_of(files, 2, 6);
    const struct io_findings findings = find_in(&report);
    assert_float_equal(find_named(&findings, "small_accesses", "read")->share, 0.1, 0.0001);
}

static void test_most_time_comes_first(void **state)
{
    (void)state;
    struct io_report_file file = file_of("/data", 0);
    file.reads = stream_of(3000000, 4 * KIB, 3 * S);
    file.writes = stream_of(3000000, 4 * KIB, 6 * S);
    const struct io_report report = report_of(&file, 1, 1);
    const struct io_findings findings = find_in(&report);
    assert_int_equal(findings.count, 2);
    assert_string_equal(findings.items[0].operation, "write");
    assert_string_equal(findings.items[1].operation, "read");
}

static void test_empty_reports_have_no_findings(void **state)
{
    (void)state;
    struct io_report report = report_of(NULL, 0, 0);
    assert_int_equal(find_in(&report).count, 0);
    struct io_report_file file = file_of("/data", 0);
    file.reads = stream_of(3000000, 4 * KIB, 3 * S);
    report = report_of(&file, 1, 1);
    report.duration_ns = 0;
    assert_int_equal(find_in(&report).count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_straggler),
        cmocka_unit_test(test_straggler_near_misses),
        cmocka_unit_test(test_processes_without_io_do_not_count),
        cmocka_unit_test(test_three_processes_have_no_straggler),
        cmocka_unit_test(test_processes_of_other_programs_are_not_compared),
        cmocka_unit_test(test_unbalanced),
        cmocka_unit_test(test_unbalanced_near_misses),
        cmocka_unit_test(test_time_of_equal_processes_is_shared),
        cmocka_unit_test(test_time_of_one_process_is_a_share_of_the_duration),
        cmocka_unit_test(test_random_reads_of_one_process_of_many),
        cmocka_unit_test(test_idle_parent_does_not_count),
        cmocka_unit_test(test_most_time_comes_first),
        cmocka_unit_test(test_empty_reports_have_no_findings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
