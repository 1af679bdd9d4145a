/* The rule of I/O findings about data loaders that do not keep up. */
#include "io_reports.h"

/* Process 0 has main thread 100. Of 10 s, the report has observed all. */
static struct io_report report_with(const struct io_report_thread *threads, size_t thread_count,
                                    const struct io_report_wait *waits, size_t wait_count)
{
    struct io_report report = report_of(NULL, 0, 3);
    report.duration_ns = report.waits_observed_ns = 10 * S;
    report.threads = threads;
    report.thread_count = thread_count;
    report.waits = waits;
    report.wait_count = wait_count;
    return report;
}

/* The thread that the finding is about; 0: no finding. */
static uint64_t thread_found(const struct io_report *report)
{
    const struct io_findings findings = find_in(report);
    const struct io_finding *input = find_named(&findings, "input_bound", "read");
    return input ? figure(input, "thread") : 0;
}

static void test_main_thread_waits_for_two_loaders(void **state)
{
    (void)state;
    const struct io_report_file data = file_of("/data", 0);
    const struct io_report_thread threads[] = {{0, 100, 4 * S, 5 * S, S, 2 * S, &data, 4}, {0, 150, 1 * S, 0}};
    const struct io_report_wait waits[] = {{100, 100, 150, 100, 3 * S}, {100, 100, 151, 100, 2 * S}};
    const struct io_report report = report_with(threads, 2, waits, 2);
    const struct io_findings findings = find_in(&report);
    const struct io_finding *input = find_named(&findings, "input_bound", "read");
    assert_non_null(input);
    assert_int_equal(input->process, 0);
    assert_int_equal(input->time_ns, 5 * S);
    assert_float_equal(input->share, 0.5, 0.0001);
    assert_int_equal(input->severity, IO_SEVERITY_HIGH);
    assert_ptr_equal(input->file, &data);
    assert_int_equal(input->other_files, 4);
    assert_int_equal(figure(input, "thread"), 100);
    assert_int_equal(figure(input, "waited"), 5 * S);
    assert_int_equal(figure(input, "ran"), 4 * S);
    assert_int_equal(figure(input, "readers"), 2);
    assert_int_equal(figure(input, "observed"), 10 * S);
    assert_int_equal(figure(input, "inferred"), S);
    assert_int_equal(figure(input, "unknown"), 2 * S);
    assert_string_equal(input->sentence,
                        "Read further ahead, with more readers or in larger pieces, or keep the data on faster "
                        "storage: thread 100 waited 5.00 s of 10.0 s for the reads of 2 other threads.");
}

/* The share is of the observed time, not of the report's duration. */
static void test_share_is_of_the_observed_time(void **state)
{
    (void)state;
    const struct io_report_thread threads[] = {{0, 100, S, 2 * S, 0}};
    struct io_report report = report_with(threads, 1, NULL, 0);
    report.waits_observed_ns = 4 * S;
    const struct io_findings findings = find_in(&report);
    assert_float_equal(find_named(&findings, "input_bound", "read")->share, 0.5, 0.0001);
    report.waits_observed_ns = 0;
    assert_int_equal(thread_found(&report), 0);
}

static void test_less_than_a_hundredth_is_none(void **state)
{
    (void)state;
    struct io_report_thread thread = {0, 100, 4 * S, 100 * MS, 0};
    const struct io_report report = report_with(&thread, 1, NULL, 0);
    assert_int_equal(thread_found(&report), 100);
    thread.for_reads_ns--;
    assert_int_equal(thread_found(&report), 0);
}

/* An idle loader waits for work, and so for whatever the consumer waits for. */
static void test_loaders_are_no_consumers(void **state)
{
    (void)state;
    const struct io_report_thread threads[] = {{0, 100, S, 4 * S, 0}, {1, 101, S, 5 * S, 0}, {2, 102, S, 5 * S, 0}};
    const struct io_report_wait waits[] = {{100, 100, 101, 101, 2 * S}, {100, 100, 102, 102, 2 * S}};
    const struct io_report report = report_with(threads, 3, waits, 2);
    const struct io_findings findings = find_in(&report);
    assert_int_equal(thread_found(&report), 100);
    assert_int_equal(find_named(&findings, "input_bound", "read")->time_ns, 4 * S);
}

/* 60 of them: the consumer waits for each one for a sixtieth of the time, and each one as long as the consumer. */
static void test_many_loaders_are_no_consumers(void **state)
{
    (void)state;
    const struct io_report_thread threads[] = {{0, 100, S, 6 * S, 0}, {1, 101, S, 6 * S, 0}};
    struct io_report_wait waits[60];
    for (uint32_t i = 0; i < 60; i++)
        waits[i] = (struct io_report_wait){100, 100, 101 + i, 101 + i, 100 * MS};
    const struct io_report report = report_with(threads, 2, waits, 60);
    const struct io_findings findings = find_in(&report);
    assert_int_equal(thread_found(&report), 100);
    assert_int_equal(find_named(&findings, "input_bound", "read")->time_ns, 6 * S);
}

/* The main thread reads its model, and an idle loader waits for that a short while. */
static void test_consumer_that_once_read_itself(void **state)
{
    (void)state;
    const struct io_report_thread threads[] = {{0, 100, S, 8 * S, 0}};
    struct io_report_wait waits[] = {
        {150, 100, 100, 100, 300 * MS}, {150, 100, 151, 100, 7 * S}, {100, 100, 150, 100, 4 * S}};
    const struct io_report report = report_with(threads, 1, waits, 3);
    assert_int_equal(thread_found(&report), 100);
    waits[0].ns = 4 * S; /* more than half of the average, 5.5 s */
    assert_int_equal(thread_found(&report), 0);
}

/* A thread in between waits for the loaders all the time, the main thread does not wait for it. */
static void test_busy_main_thread_that_does_not_wait(void **state)
{
    (void)state;
    const struct io_report_thread threads[] = {{0, 100, 9 * S, 0, 0}, {0, 140, S, 8 * S, 0}};
    const struct io_report report = report_with(threads, 2, NULL, 0);
    assert_int_equal(thread_found(&report), 0);
}

/* The main thread only waits for the others to end. */
static void test_consumer_that_is_not_the_main_thread(void **state)
{
    (void)state;
    struct io_report_thread threads[] = {
        {0, 100, 50 * MS, 0, 0}, {0, 140, S, 6 * S, 0}, {0, 141, 4 * S, 5 * S, 0}, {0, 150, 5 * S, 2 * S, 0}};
    const struct io_report_wait waits[] = {{141, 100, 150, 100, 5 * S}};
    const struct io_report report = report_with(threads, 4, waits, 1);
    assert_int_equal(thread_found(&report), 141); /* 150 loads */
    threads[2].for_reads_ns = 0;
    assert_int_equal(thread_found(&report), 0);
}

static void test_main_thread_that_only_waits(void **state)
{
    (void)state;
    const struct io_report_thread threads[] = {{0, 100, 50 * MS, 5 * S, 0}, {0, 141, 4 * S, 6 * S, 0}};
    const struct io_report report = report_with(threads, 2, NULL, 0);
    assert_int_equal(thread_found(&report), 100);
}

/* Such as one that hands batches on. */
static void test_other_threads_that_only_wait_are_no_consumers(void **state)
{
    (void)state;
    const struct io_report_thread threads[] = {{0, 100, 50 * MS, 0, 0}, {0, 141, 99 * MS, 6 * S, 0}};
    const struct io_report report = report_with(threads, 2, NULL, 0);
    assert_int_equal(thread_found(&report), 0);
}

static void test_worst_process_of_several(void **state)
{
    (void)state;
    const struct io_report_thread threads[] = {{0, 100, S, 2 * S, 0}, {1, 101, S, 7 * S, 0}, {2, 102, S, 0, 0}};
    const struct io_report report = report_with(threads, 3, NULL, 0);
    const struct io_findings findings = find_in(&report);
    const struct io_finding *input = find_named(&findings, "input_bound", "read");
    assert_int_equal(input->process, 1);
    assert_int_equal(input->time_ns, 9 * S);
    assert_float_equal(input->share, 0.7, 0.0001);
    assert_null(input->file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_main_thread_waits_for_two_loaders),
        cmocka_unit_test(test_share_is_of_the_observed_time),
        cmocka_unit_test(test_less_than_a_hundredth_is_none),
        cmocka_unit_test(test_loaders_are_no_consumers),
        cmocka_unit_test(test_many_loaders_are_no_consumers),
        cmocka_unit_test(test_consumer_that_once_read_itself),
        cmocka_unit_test(test_busy_main_thread_that_does_not_wait),
        cmocka_unit_test(test_consumer_that_is_not_the_main_thread),
        cmocka_unit_test(test_main_thread_that_only_waits),
        cmocka_unit_test(test_other_threads_that_only_wait_are_no_consumers),
        cmocka_unit_test(test_worst_process_of_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
