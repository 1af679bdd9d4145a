/* The rules of I/O findings about files: for each one a report that has it, and one that barely has not. */
#include "base/cleanup.h"

#include "io_reports.h"

/* ---- small accesses ---- */

static void test_small_reads(void **state)
{
    (void)state;
    struct io_report_file file = file_of("/data", 0);
    file.reads = stream_of(3000000, 4 * KIB, 12 * S);
    const struct io_report report = report_of(&file, 1, 1);
    const struct io_findings findings = find_in(&report);
    assert_int_equal(findings.count, 1);
    const struct io_finding *small = find_named(&findings, "small_accesses", "read");
    assert_non_null(small);
    assert_int_equal(small->severity, IO_SEVERITY_MEDIUM);
    assert_float_equal(small->share, 0.12, 0.0001);
    assert_int_equal(small->time_ns, 12 * S);
    assert_ptr_equal(small->file, &file);
    assert_int_equal(small->other_files, 0);
    assert_int_equal(figure(small, "operations"), 3000000);
    assert_int_equal(figure(small, "mean_time"), 4 * US);
    assert_int_equal(figure(small, "larger_operations"), 11719);
    assert_string_equal(small->sentence, "Read in larger pieces: 3,000,000 reads of at most 100 KiB took 12.0 s (4.00 "
                                         "us each); in pieces of 1 MiB they would be about 11,719.");
}

static void test_small_writes_are_a_finding_of_their_own(void **state)
{
    (void)state;
    struct io_report_file file = file_of("/log", 0);
    file.writes = stream_of(100000, 80, 1 * S);
    assert_true(has(&file, "small_accesses", "write"));
    assert_false(has(&file, "small_accesses", "read"));
    file.writes.time.ns = 1 * S - 1;
    assert_false(has(&file, "small_accesses", "write")); /* less than 1 % of the time */
}

static void test_reads_of_the_recommended_size_are_not_small(void **state)
{
    (void)state;
    struct io_report_file file = file_of("/data", 0);
    file.reads = stream_of(30000, MIB, 12 * S);
    assert_false(has(&file, "small_accesses", "read"));
    file.reads = stream_of(30000, 200 * KIB, 12 * S);
    assert_false(has(&file, "small_accesses", "read")); /* a call costs little beside the copy */
}

static void test_few_small_reads_are_no_finding(void **state)
{
    (void)state;
    struct io_report_file file = file_of("/data", 0);
    file.reads = stream_of(99, 4 * KIB, 12 * S);
    assert_false(has(&file, "small_accesses", "read"));
    file.reads = stream_of(100, 4 * KIB, 12 * S);
    assert_true(has(&file, "small_accesses", "read"));
}

/* 2000 headers of 100 bytes before 2000 blocks of 2 MiB: most operations are small, and take no time. */
static void test_headers_of_large_blocks_are_no_finding(void **state)
{
    (void)state;
    struct io_report_file file = file_of("/data", 0);
    file.writes = stream_of(2000, 2 * MIB, 20 * S);
    file.writes.operations = file.writes.located = 4000;
    file.writes.followed = file.writes.sequential = file.writes.consecutive = 3999;
    file.writes.bytes += 2000 * 100;
    file.writes.sizes[0] = 2000;
    assert_false(has(&file, "small_accesses", "write"));
    file.writes.slowest_ns = 5 * MS; /* then the large ones cannot have taken more than 10 s */
    assert_true(has(&file, "small_accesses", "write"));
}

static void test_few_small_among_large_writes_are_no_finding(void **state)
{
    (void)state;
    struct io_report_file file = file_of("/data", 0);
    file.writes = stream_of(3600, 2 * MIB, 20 * S);
    file.writes.slowest_ns = MS; /* the small ones took 16 s */
    file.writes.operations = file.writes.located = 4000;
    file.writes.followed = file.writes.sequential = file.writes.consecutive = 3999;
    file.writes.sizes[0] = 400;
    assert_false(has(&file, "small_accesses", "write"));
    file.writes.operations = file.writes.located = 4001;
    file.writes.followed = file.writes.sequential = file.writes.consecutive = 4000;
    file.writes.sizes[0] = 401;
    assert_true(has(&file, "small_accesses", "write"));
}

/* The bytes of large writes are known within a bin: the remaining bytes are from small writes. */
static void test_share_of_bytes_bounds_the_time_of_small_writes(void **state)
{
    (void)state;
    struct io_report_file file = file_of("/data", 0);
    file.writes = stream_of(20000, 64 * KIB, 20 * S);
    file.writes.sizes[4] = 1;
    file.writes.slowest_ns = 20 * S; /* it may have taken all of the time */
    assert_true(has(&file, "small_accesses", "write"));
}

static void test_small_files_read_whole_are_no_finding(void **state)
{
    (void)state;
    struct io_report_file file = file_of("/data", 0);
    file.reads = stream_of(2000, 4 * KIB, 12 * S); /* each open: a read, and one at the end of the file */
    file.opens = 1000;
    file.reads.sequential = file.reads.consecutive = 1000;
    assert_false(has(&file, "small_accesses", "read"));
    file.opens = 10;
    file.reads.sequential = file.reads.consecutive = 1990;
    assert_true(has(&file, "small_accesses", "read"));
}

static void test_one_finding_for_many_files(void **state)
{
    (void)state;
    struct io_report_file files[] = {file_of("/a", 0), file_of("/b", 0), file_of("/c", 0), file_of("/b", 1)};
    for (size_t i = 0; i < array_size(files); i++)
        files[i].reads = stream_of(1000, 4 * KIB, (i == 3 ? 9 : 5) * S);
    const struct io_report report = report_of(files, 4, 2);
    const struct io_findings findings = find_in(&report);
    const struct io_finding *small = find_named(&findings, "small_accesses", "read");
    assert_non_null(small);
    assert_ptr_equal(small->file, &files[3]);
    assert_int_equal(small->process, 0); /* 15 s of all files */
    assert_int_equal(small->other_files, 2);
    assert_int_equal(small->time_ns, 24 * S);
}

/* A shell runs two programs, one after the other: only one of them does I/O at a time. */
static void test_a_shell_is_not_a_process_that_does_io(void **state)
{
    (void)state;
    struct io_report_file files[] = {file_of("/a", 0), file_of("/a", 1), file_of("/bin/sh", 2)};
    for (size_t i = 0; i < 2; i++) {
        files[i].reads = stream_of(1000, 4 * KIB, 20 * S);
        files[i].reads.time.first_ns = 50 * S * i;
        files[i].reads.time.last_ns = 50 * S * (i + 1);
    }
    files[2].metadata = (struct io_report_time){0, 100 * S, 199 * MS};
    const struct io_report report = report_of(files, 3, 3);
    struct io_findings findings = find_in(&report);
    assert_float_equal(find_named(&findings, "small_accesses", "read")->share, 0.4, 0.0001);
    files[2].metadata.ns = 200 * MS; /* a hundredth of another file's */
    findings = find_in(&report);
    assert_float_equal(find_named(&findings, "small_accesses", "read")->share, 0.2, 0.0001);
}

/* ---- random accesses ---- */

static void test_random_reads(void **state)
{
    (void)state;
    const struct io_report_file file = random_file(100000, 50000, 4 * KIB, 40 * S);
    const struct io_report report = report_of(&file, 1, 1);
    const struct io_findings findings = find_in(&report);
    const struct io_finding *random = find_named(&findings, "random_accesses", "read");
    assert_non_null(random);
    assert_int_equal(random->time_ns, 20 * S);
    assert_int_equal(random->severity, IO_SEVERITY_HIGH);
    assert_int_equal(figure(random, "operations"), 50000);
    assert_int_equal(figure(random, "all_operations"), 100000);
}

static void test_random_reads_near_misses(void **state)
{
    (void)state;
    struct io_report_file file = random_file(100000, 20000, 4 * KIB, 40 * S);
    assert_false(has(&file, "random_accesses", "read")); /* as many as drishti-io allows */
    file = random_file(100000, 20001, 4 * KIB, 40 * S);
    assert_true(has(&file, "random_accesses", "read"));
    file = random_file(100000, 99999, 4 * KIB, 40 * S);
    assert_true(has(&file, "random_accesses", "read"));
    assert_false(has(&file, "small_accesses", "read")); /* they cannot be joined */
    file = random_file(1000, 500, 4 * MIB, 40 * S);
    assert_false(has(&file, "random_accesses", "read")); /* the transfer takes longer than the seek */
    file = random_file(1000000, 999999, 4 * KIB, 12 * S);
    assert_false(has(&file, "random_accesses", "read")); /* in the page cache */
    file = random_file(100000, 99999, 4 * KIB, 40 * S);
    file.opens = 100000; /* each read is the first one after an open */
    assert_false(has(&file, "random_accesses", "read"));
}

/* Of most reads the one before is not known: of the others half are random. */
static void test_share_of_random_reads_is_that_of_known_ones(void **state)
{
    (void)state;
    struct io_report_file file = random_file(100000, 50000, 4 * KIB, 40 * S);
    file.reads.followed = 1000;
    file.reads.sequential = 500;
    assert_true(has(&file, "random_accesses", "read"));
    file.reads.sequential = 900;
    assert_false(has(&file, "random_accesses", "read"));
}

static void test_sequential_reads_with_gaps_are_not_random(void **state)
{
    (void)state;
    const struct io_report_file file = random_file(100000, 0, 4 * KIB, 40 * S);
    assert_false(has(&file, "random_accesses", "read"));
    assert_true(has(&file, "cold_cache", "read"));
}

/* ---- misaligned ---- */

static struct io_report_file unaligned_file(uint64_t unaligned, uint64_t consecutive, uint64_t bytes)
{
    struct io_report_file file = file_of("/db", 0);
    file.writes = stream_of(10000, bytes, 40 * S);
    file.writes.unaligned = unaligned;
    file.writes.consecutive = consecutive;
    return file;
}

static void test_misaligned_writes(void **state)
{
    (void)state;
    const struct io_report_file file = unaligned_file(10000, 0, 4 * KIB);
    const struct io_report report = report_of(&file, 1, 1);
    const struct io_findings findings = find_in(&report);
    const struct io_finding *misaligned = find_named(&findings, "misaligned", "write");
    assert_non_null(misaligned);
    assert_int_equal(misaligned->time_ns, 20 * S); /* one block of two */
    assert_string_equal(misaligned->sentence,
                        "Write at multiples of 4.00 KiB, the block of the file system: 10,000 of 10,000 writes began "
                        "within a block, and touched one more than their 4.00 KiB need.");
}

static void test_misaligned_near_misses(void **state)
{
    (void)state;
    struct io_report_file file = unaligned_file(1000, 0, 4 * KIB);
    assert_false(has(&file, "misaligned", "write"));
    file = unaligned_file(1001, 0, 4 * KIB);
    assert_true(has(&file, "misaligned", "write"));
    file = unaligned_file(9999, 9999, 4 * KIB); /* a log */
    assert_false(has(&file, "misaligned", "write"));
    file.direct = 10000;
    assert_true(has(&file, "misaligned", "write"));
    file = unaligned_file(10000, 0, MIB); /* one block of 257 */
    assert_false(has(&file, "misaligned", "write"));
    file.writes = stream_of(400000, 4 * KIB, 4 * S); /* in the page cache */
    file.writes.unaligned = 400000;
    file.writes.consecutive = 0;
    assert_false(has(&file, "misaligned", "write"));
    file = unaligned_file(10000, 0, 4 * KIB);
    file.block_bytes = 0;
    assert_false(has(&file, "misaligned", "write"));
}

/* ---- metadata and syncs ---- */

static struct io_report_file metadata_file(uint64_t stats, uint64_t time_ns)
{
    struct io_report_file file = file_of("", 0);
    file.opens = 0;
    file.stats = stats;
    file.metadata = (struct io_report_time){1, 50 * S, time_ns};
    return file;
}

static void test_metadata(void **state)
{
    (void)state;
    const struct io_report_file file = metadata_file(20000, 2 * S);
    const struct io_report report = report_of(&file, 1, 1);
    const struct io_findings findings = find_in(&report);
    assert_int_equal(findings.count, 1);
    assert_string_equal(findings.items[0].name, "metadata_heavy");
    assert_int_equal(findings.items[0].severity, IO_SEVERITY_LOW);
    assert_string_equal(findings.items[0].sentence,
                        "Keep what stat returned instead of asking again: 20,000 of 20,000 metadata operations were "
                        "stats; all of them took 2.00 s (100 us each).");
}

static void test_metadata_near_misses(void **state)
{
    (void)state;
    struct io_report_file file = metadata_file(99, 2 * S);
    assert_false(has(&file, "metadata_heavy", ""));
    file = metadata_file(20000, 2 * S);
    file.reads = stream_of(1000, MIB, 5 * S);
    assert_false(has(&file, "metadata_heavy", "")); /* 2 of 7 s */
    file.reads = stream_of(1000, MIB, 4 * S);
    assert_true(has(&file, "metadata_heavy", ""));
    file = metadata_file(20000, 31 * S);
    file.reads = stream_of(1000, MIB, 90 * S);
    assert_true(has(&file, "metadata_heavy", "")); /* drishti-io's 30 s */
}

static void test_opens_are_the_metadata_to_change(void **state)
{
    (void)state;
    struct io_report_file file = metadata_file(10, 2 * S);
    file.opens = file.closes = 500;
    const struct io_report report = report_of(&file, 1, 1);
    const struct io_findings findings = find_in(&report);
    assert_int_equal(findings.count, 1);
    assert_non_null(strstr(findings.items[0].sentence, "Open files once and keep them open: 1,000 of 1,010 metadata"));
}

static struct io_report_file synced_file(uint64_t syncs, uint64_t written, uint64_t time_ns)
{
    struct io_report_file file = file_of("/wal", 0);
    file.writes = stream_of(100, written / 100, 1 * MS);
    file.syncs = syncs;
    file.sync = file.metadata = (struct io_report_time){1, 50 * S, time_ns};
    return file;
}

static void test_syncs(void **state)
{
    (void)state;
    struct io_report_file file = synced_file(1000, 100 * KIB, 20 * S);
    file.opens = 200;
    const struct io_report report = report_of(&file, 1, 1);
    struct io_findings findings = find_in(&report);
    assert_int_equal(findings.count, 1); /* syncs are not metadata_heavy, too */
    assert_string_equal(findings.items[0].name, "sync_bound");
    assert_int_equal(findings.items[0].severity, IO_SEVERITY_HIGH);
    assert_non_null(strstr(findings.items[0].sentence, "Sync less often: 1,000 syncs took 20.0 s (20.0 ms each)"));
    file = synced_file(10, 1000 * MIB, 20 * S);
    findings = find_in(&report);
    assert_non_null(strstr(findings.items[0].sentence, "Sync in a thread of its own"));
}

static void test_syncs_near_misses(void **state)
{
    (void)state;
    struct io_report_file file = synced_file(9, 100 * KIB, 20 * S);
    assert_false(has(&file, "sync_bound", ""));
    file = synced_file(1000, 100 * KIB, 1 * S - 1);
    assert_false(has(&file, "sync_bound", ""));
}

/* ---- cold cache ---- */

static void test_cold_cache(void **state)
{
    (void)state;
    struct io_report_file file = file_of("/data", 0);
    file.reads = stream_of(10000, MIB, 30 * S);
    const struct io_report report = report_of(&file, 1, 1);
    const struct io_findings findings = find_in(&report);
    assert_int_equal(findings.count, 1);
    assert_string_equal(findings.items[0].name, "cold_cache");
    assert_non_null(strstr(findings.items[0].sentence, "inferred"));
    assert_non_null(strstr(findings.items[0].sentence, "10,000 buffered reads took 3.00 ms each, 19.4 s more"));
}

static void test_cold_cache_near_misses(void **state)
{
    (void)state;
    struct io_report_file file = file_of("/data", 0);
    file.reads = stream_of(10000, MIB, 10 * S); /* 1 GB/s */
    assert_false(has(&file, "cold_cache", "read"));
    file.reads = stream_of(10000, MIB, 30 * S);
    file.reads.slowest_ns = 25 * S; /* one read alone was slow */
    assert_false(has(&file, "cold_cache", "read"));
    file.reads = stream_of(10000, MIB, 30 * S);
    file.direct = 1;
    assert_false(has(&file, "cold_cache", "read"));
    file.direct = 0;
    file.file_system = "tmpfs";
    assert_false(has(&file, "cold_cache", "read"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_reads),
        cmocka_unit_test(test_small_writes_are_a_finding_of_their_own),
        cmocka_unit_test(test_reads_of_the_recommended_size_are_not_small),
        cmocka_unit_test(test_few_small_reads_are_no_finding),
        cmocka_unit_test(test_headers_of_large_blocks_are_no_finding),
        cmocka_unit_test(test_few_small_among_large_writes_are_no_finding),
        cmocka_unit_test(test_share_of_bytes_bounds_the_time_of_small_writes),
        cmocka_unit_test(test_small_files_read_whole_are_no_finding),
        cmocka_unit_test(test_one_finding_for_many_files),
        cmocka_unit_test(test_a_shell_is_not_a_process_that_does_io),
        cmocka_unit_test(test_random_reads),
        cmocka_unit_test(test_random_reads_near_misses),
        cmocka_unit_test(test_share_of_random_reads_is_that_of_known_ones),
        cmocka_unit_test(test_sequential_reads_with_gaps_are_not_random),
        cmocka_unit_test(test_misaligned_writes),
        cmocka_unit_test(test_misaligned_near_misses),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_metadata_near_misses),
        cmocka_unit_test(test_opens_are_the_metadata_to_change),
        cmocka_unit_test(test_syncs),
        cmocka_unit_test(test_syncs_near_misses),
        cmocka_unit_test(test_cold_cache),
        cmocka_unit_test(test_cold_cache_near_misses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
