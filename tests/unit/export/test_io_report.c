/* The text, JSON and HTML of an I/O report: their contents, and names from untrusted sources. */
#include "export/io_report_html.h"
#include "export/io_report_json.h"
#include "export/io_report_text.h"
#include "web_assets.h"

#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define S         UINT64_C(1000000000)
#define HOSTILE   "</title></script><!--<script><img src=x>\n\x1b[31m\xc2\x9b\xff\"\\"
#define INTERVALS 4

static const struct io_report_process processes[] = {{815, "python3"}, {816, "a\nb"}};

static const struct io_report_file files[] = {
    {.path = "/data/train.bin",
     .mount_point = "/data",
     .file_system = "xfs",
     .inode = 4711,
     .block_bytes = 4096,
     .reads = {.operations = 3000000,
               .bytes = 3000000 * UINT64_C(4096),
               .located = 3000000,
               .followed = 3000000,
               .sequential = 2970000,
               .consecutive = 2940000,
               .unaligned = 3000,
               .end_offset = 3000000 * UINT64_C(4096),
               .sizes = {[2] = 3000000},
               .slowest_ns = 12000000,
               .slowest_bytes = 4096,
               .time = {1, 50 * S, 12 * S}},
     .opens = 1,
     .open = {1, 2, 3},
     .metadata = {1, 2, 3},
     .sizes = {{4096, 3000000}},
     .strides = {{8192, 29999}}},
    {.path = "/out/log",
     .mount_point = "/",
     .file_system = "ext4",
     .process = 1,
     .writes = {.operations = 10,
                .bytes = 1000,
                .sizes = {10},
                .slowest_ns = 1000,
                .slowest_bytes = 100,
                .time = {1, 2, 10000}},
     .errors = 2},
    {.path = "",
     .mount_point = "",
     .file_system = "",
     .process = 1,
     .stats = 7,
     .errors = 978,
     .metadata = {1, 2, 7000}},
};

static const struct io_report_cell cells[2 * INTERVALS] = {{1 << 20, 0}, {0, 0}, {1 << 18, 0}, {0, 0},
                                                           {0, 0},       {0, 0}, {0, 0},       {0, 1000}};

static const struct io_failure failures[] = {
    {.error = "ENOSPC", .operation = "write", .path = "/out/log", .process = 1, .count = 2},
    {.error = "ENOENT", .operation = "open", .path = "a\nb", .is_expected = true, .count = 900},
    {.error = "ENOENT", .operation = "open", .path = "c", .is_expected = true, .count = 60},
    {.error = "ENOENT", .operation = "stat", .path = "", .is_expected = true, .count = 15},
};

static const struct io_finding finding = {.name = "small_accesses",
                                          .operation = "read",
                                          .severity = IO_SEVERITY_HIGH,
                                          .share = 0.2,
                                          .time_ns = 12 * S,
                                          .file = &files[0],
                                          .other_files = 3,
                                          .figures = {{"operations", IO_UNIT_COUNT, 3000000},
                                                      {"mean_time", IO_UNIT_NS, 4000},
                                                      {"moved", IO_UNIT_BYTES, 12288000000}},
                                          .sentence = "Read in larger pieces: 3,000,000 reads of at most 100 KiB took "
                                                      "12.0 s (4.00 us each); in pieces of 1 MiB they would be about "
                                                      "11,719."};

static struct io_report typical_report(void)
{
    return (struct io_report){.title = "slurm 4711",
                              .executable = "python3 train.py",
                              .job_id = "4711",
                              .start_unix_ns = UINT64_C(1763712000123456789),
                              .duration_ns = 60 * S,
                              .uid = 1000,
                              .processes = processes,
                              .process_count = 2,
                              .files = files,
                              .file_count = 3,
                              .cells = cells,
                              .interval_count = INTERVALS,
                              .interval_ns = 15 * S,
                              .failures = failures,
                              .failure_count = array_size(failures)};
}

static void assert_holds(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no \"%s\" in:\n%s", part, text);
}

/* ---- text ---- */

static void test_text_of_a_report(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    const struct io_report report = typical_report();
    assert_int_equal(io_report_text_put(&report, &finding, 1, &out), 0);
    static const char *const lines[] = {
        "I/O of slurm 4711\n  from 2025-11-21 08:00:00 UTC for 60.0 s\n  command: python3 train.py\n"
        "  2 processes, 3 files, user 1000, job 4711\n\n",
        "  read           3,000,000    11.4 GiB    12.0 s 100.0 %     977 MiB/s\n",
        "  write                 10      1000 B   10.0 us   0.0 %    95.4 MiB/s\n",
        "  metadata               8           -   7.00 us   0.0 %           -\n",
        "\n  2 operations failed:\n           2  ENOSPC       write     /out/log\n",
        "\n  978 more failed as programs expect, for example while they look for files:\n"
        "         960  ENOENT       open      a?b and 1 more\n"
        "          15  ENOENT       stat      (path not known)\n"
        "           3  (others)\n",
        "  high    20.0 %  small_accesses (read)\n"
        "                  Read in larger pieces: 3,000,000 reads of at most 100 KiB took 12.0 s (4.00 us\n"
        "                  each); in pieces of 1 MiB they would be about 11,719.\n"
        "                  /data/train.bin and 3 other files; costs process 815 most\n",
        "    12.0 s 100.0 %  11.4 GiB         -   3,000,000         1     1  /data/train.bin\n"
        "   10.0 us   0.0 %         -    1000 B          10         -     1  /out/log\n"
        "   7.00 us   0.0 %         -         -           -         7     1  (calls that name a path)\n",
        "    to 100 B              -   0.0 %                           10 100.0 %  ############\n"
        "   to 10 KiB      3,000,000 100.0 %  ############              -   0.0 %\n",
        "  reads    99.0 % sequential,  98.0 % consecutive,   0.1 % unaligned; slowest: 12.0 ms for 4.00 KiB\n",
        "  writes slowest: 1.00 us for 100 B\n",
        "  most frequent sizes in bytes: 4,096 (3,000,000 times)\n",
        "  most frequent strides in bytes: 8,192 (29,999 times)\n",
        "a column is 15.0 s, @ up to 1.00 MiB",
        "  all reads             |@ # |\n  all writes            |   -|\n"
        "  815 python3           |@ # |\n  816 a?b               |   -|\n",
    };
    for (size_t i = 0; i < array_size(lines); i++)
        assert_holds(out.data, lines[i]);
    assert_null(strstr(out.data, "INCOMPLETE"));
}

static void test_text_states_losses_first(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    struct io_report report = typical_report();
    report.lost = 1234;
    assert_int_equal(io_report_text_put(&report, NULL, 0, &out), 0);
    assert_holds(out.data, "INCOMPLETE: 1,234 operations did not fit the tables");
    assert_true(strstr(out.data, "INCOMPLETE") < strstr(out.data, "OPERATIONS"));
    assert_holds(out.data, "  None: nothing that can be changed explains 1 % of the time.\n");
}

static void test_text_fits_the_terminal(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    char path[512] = "/";
    for (size_t i = 1; i + 3 < sizeof(path); i += 2)
        memcpy(path + i, "\xc3\xa9", 3); /* two bytes, one column */
    struct io_report_file file = files[0];
    file.path = path;
    struct io_finding about = finding;
    about.file = &file;
    struct io_report report = typical_report();
    report.title = report.executable = report.job_id = path;
    report.files = &file;
    report.file_count = 1;
    assert_int_equal(io_report_text_put(&report, &about, 1, &out), 0);
    for (const char *line = out.data; *line; line += strcspn(line, "\n") + 1) {
        size_t columns = 0;
        for (const char *at = line; *at != '\n'; at++)
            columns += (*at & 0xC0) != 0x80;
        if (columns > 100)
            fail_msg("%zu columns: %.*s", columns, (int)strcspn(line, "\n"), line);
    }
    assert_holds(out.data, "    1     1  ...\xc3\xa9");
}

static void test_text_without_control_characters(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    struct io_report_file file = files[0];
    file.path = HOSTILE;
    struct io_report report = typical_report();
    report.title = report.executable = report.job_id = HOSTILE;
    report.files = &file;
    report.file_count = 1;
    report.processes = (struct io_report_process[]){{815, HOSTILE}, {816, HOSTILE}};
    struct io_finding findings[] = {finding, finding};
    findings[0].file = &file;
    findings[1].file = NULL;
    assert_int_equal(io_report_text_put(&report, findings, 2, &out), 0);
    for (const char *at = out.data; *at; at++) {
        assert_true((unsigned char)*at >= 0x20 || *at == '\n');
        assert_false((unsigned char)at[0] == 0xC2 && (unsigned char)at[1] < 0xA0);
        assert_int_not_equal((unsigned char)*at, 0xFF);
    }
    assert_holds(out.data, "I/O of </title></script><!--<script><img src=x>??[31m?\xEF\xBF\xBD\"\\\n");
}

static void test_only_files_with_the_most_time_are_listed(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    static char paths[25][8];
    struct io_report_file many[25];
    for (size_t i = 0; i < array_size(many); i++) {
        snprintf(paths[i], sizeof(paths[i]), "/f%02zu", i);
        many[i] = files[1];
        many[i].path = paths[i];
        many[i].writes.time.ns = 1000 + i;
    }
    struct io_report report = typical_report();
    report.files = many;
    report.file_count = array_size(many);
    assert_int_equal(io_report_text_put(&report, NULL, 0, &out), 0);
    assert_holds(out.data, "/f24\n");
    assert_holds(out.data, "/f05\n");
    assert_null(strstr(out.data, "/f04"));
    assert_holds(out.data, "... 5 more with less time\n");
}

static struct io_report empty_report(void)
{
    struct io_report report = {.title = "process 815", .executable = "", .job_id = "", .duration_ns = 3 * S};
    report.coverage = (struct coverage){.asked_ns = 3 * S, .observed_ns = 3 * S};
    coverage_add_gap(&report.coverage, COVERAGE_METHOD, 3 * S, "Not observed by this method: io_uring is not seen.");
    return report;
}

static void test_text_without_operations_says_why(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    const struct io_report report = empty_report();
    assert_int_equal(io_report_text_put(&report, NULL, 0, &out), 0);
    assert_holds(out.data, "\n  No I/O operation was seen in the last 3.00 s, and all of that time was observed.\n"
                           "  Not observed by this method: io_uring is not seen.\n");
    assert_holds(out.data, "  0 processes, 0 files, user 0\n");
    assert_null(strstr(out.data, "OPERATIONS"));
    assert_null(strstr(out.data, "over time"));
}

static void test_json_without_operations_says_why(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    const struct io_report report = empty_report();
    assert_int_equal(io_report_json_put(&report, NULL, 0, &out), 0);
    json_t *root = json_loadb(out.data, out.size, 0, NULL), *coverage = json_object_get(root, "coverage");
    assert_string_equal(json_string_value(json_object_get(coverage, "nothing")),
                        "No I/O operation was seen in the last 3.00 s, and all of that time was observed.");
    json_t *gap = json_array_get(json_object_get(coverage, "gaps"), 0);
    assert_string_equal(json_string_value(json_object_get(gap, "reason")), "method");
    assert_null(json_object_get(coverage, "opaque_ports"));
    json_decref(root);
}

/* ---- JSON ---- */

static json_t *parse(const struct buf *out)
{
    json_error_t error;
    json_t *root = json_loads(out->data, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        fail_msg("%s at %d", error.text, error.position);
    return root;
}

static json_int_t integer_at(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        fail_msg("no integer %s", key);
    return json_integer_value(value);
}

static void assert_text_at(json_t *object, const char *key, const char *expected)
{
    json_t *value = json_object_get(object, key);
    assert_true(json_is_string(value));
    assert_string_equal(json_string_value(value), expected);
}

static void assert_first_file(json_t *file)
{
    assert_text_at(file, "path", "/data/train.bin");
    assert_text_at(file, "mount_point", "/data");
    assert_text_at(file, "file_system", "xfs");
    assert_int_equal(integer_at(file, "inode"), 4711);
    assert_int_equal(integer_at(file, "block_bytes"), 4096);
    assert_int_equal(integer_at(file, "opens"), 1);
    assert_int_equal(integer_at(json_object_get(file, "open"), "time_ns"), 3);
    json_t *reads = json_object_get(file, "reads");
    assert_int_equal(integer_at(reads, "operations"), 3000000);
    assert_int_equal(integer_at(reads, "sequential"), 2970000);
    assert_int_equal(integer_at(reads, "slowest_ns"), 12000000);
    assert_int_equal(integer_at(reads, "last_ns"), 50 * S);
    assert_int_equal(integer_at(reads, "time_ns"), 12 * S);
    assert_int_equal(json_array_size(json_object_get(reads, "sizes")), IO_REPORT_SIZES);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(reads, "sizes"), 2)), 3000000);
    json_t *strides = json_object_get(file, "common_strides");
    assert_int_equal(json_array_size(strides), 1);
    assert_int_equal(integer_at(json_array_get(strides, 0), "bytes"), 8192);
    assert_int_equal(integer_at(json_array_get(strides, 0), "count"), 29999);
}

static void assert_finding(json_t *json)
{
    assert_text_at(json, "name", "small_accesses");
    assert_text_at(json, "operation", "read");
    assert_text_at(json, "severity", "high");
    assert_float_equal(json_real_value(json_object_get(json, "share")), 0.2, 1e-9);
    assert_int_equal(integer_at(json, "time_ns"), 12 * S);
    assert_text_at(json, "file", "/data/train.bin");
    assert_int_equal(integer_at(json, "other_files"), 3);
    json_t *figures = json_object_get(json, "figures");
    assert_int_equal(json_object_size(figures), 3);
    assert_int_equal(integer_at(figures, "operations"), 3000000);
    assert_int_equal(integer_at(figures, "mean_time_ns"), 4000);
    assert_int_equal(integer_at(figures, "moved_bytes"), 12288000000);
    assert_text_at(json, "change", finding.sentence);
}

static void test_json_of_a_report(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    struct io_report report = typical_report();
    report.lost = 5;
    struct io_finding findings[] = {finding, finding};
    findings[1].file = NULL;
    findings[1].process = 1;
    assert_int_equal(io_report_json_put(&report, findings, 2, &out), 0);
    json_t *root = parse(&out);
    assert_text_at(root, "title", "slurm 4711");
    assert_int_equal(integer_at(root, "start_unix_ns"), 1763712000123456789);
    assert_int_equal(integer_at(root, "duration_ns"), 60 * S);
    assert_int_equal(integer_at(root, "lost_operations"), 5);
    json_t *bins = json_object_get(root, "size_bins_bytes");
    assert_int_equal(json_array_size(bins), IO_REPORT_SIZES - 1);
    assert_int_equal(json_integer_value(json_array_get(bins, 8)), 1 << 30);
    json_t *list = json_object_get(root, "findings");
    assert_int_equal(json_array_size(list), 2);
    assert_finding(json_array_get(list, 0));
    assert_null(json_object_get(json_array_get(list, 1), "file"));
    assert_int_equal(integer_at(json_array_get(list, 1), "process"), 1);
    assert_text_at(json_array_get(json_object_get(root, "processes"), 1), "command", "a\nb");
    json_t *all = json_object_get(root, "files");
    assert_int_equal(json_array_size(all), 3);
    assert_first_file(json_array_get(all, 0));
    assert_int_equal(integer_at(json_array_get(all, 1), "errors"), 2);
    json_t *failed = json_object_get(root, "failures");
    assert_int_equal(json_array_size(failed), 4);
    assert_text_at(json_array_get(failed, 0), "error", "ENOSPC");
    assert_text_at(json_array_get(failed, 0), "operation", "write");
    assert_text_at(json_array_get(failed, 0), "path", "/out/log");
    assert_int_equal(integer_at(json_array_get(failed, 0), "process"), 1);
    assert_int_equal(integer_at(json_array_get(failed, 0), "count"), 2);
    assert_true(json_is_false(json_object_get(json_array_get(failed, 0), "is_expected")));
    assert_true(json_is_true(json_object_get(json_array_get(failed, 1), "is_expected")));
    json_t *heatmap = json_object_get(root, "heatmap");
    assert_int_equal(integer_at(heatmap, "interval_ns"), 15 * S);
    json_t *second = json_array_get(json_object_get(heatmap, "processes"), 1);
    assert_int_equal(json_array_size(json_object_get(second, "read_bytes")), INTERVALS);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(second, "write_bytes"), 3)), 1000);
    json_decref(root);
}

static void test_json_escapes_names(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    struct io_report_file file = files[0];
    file.path = file.mount_point = file.file_system = HOSTILE;
    struct io_report report = typical_report();
    report.title = report.executable = report.job_id = HOSTILE;
    report.files = &file;
    report.file_count = 1;
    assert_int_equal(io_report_json_put(&report, NULL, 0, &out), 0);
    json_t *root = parse(&out);
    static const char expected[] = "</title></script><!--<script><img src=x>\n\x1b[31m\xc2\x9b\xEF\xBF\xBD\"\\";
    assert_text_at(root, "title", expected);
    assert_text_at(json_array_get(json_object_get(root, "files"), 0), "path", expected);
    json_decref(root);
}

/* ---- HTML ---- */

static size_t occurrences(const char *text, const char *part)
{
    size_t n = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        n++;
    return n;
}

static void test_page_holds_the_json(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf html = {0}, json = {0};
    const struct io_report report = typical_report();
    assert_int_equal(io_report_html_put(&report, &finding, 1, &html), 0);
    assert_int_equal(io_report_json_put(&report, &finding, 1, &json), 0);
    assert_int_equal(occurrences(html.data, json.data), 1);
    assert_int_equal(occurrences(html.data, "<title>Sonde: I/O of slurm 4711</title>"), 1);
    assert_int_equal(occurrences(html.data, WEB_PLACEHOLDER), 0);
    assert_null(strstr(html.data, "src=\""));
}

static void test_hostile_names_stay_inside_the_page(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf html = {0}, plain = {0};
    struct io_report report = typical_report();
    assert_int_equal(io_report_html_put(&report, &finding, 1, &plain), 0);
    struct io_report_file file = files[0];
    file.path = file.mount_point = file.file_system = HOSTILE WEB_PLACEHOLDER;
    struct io_finding about = finding;
    about.file = &file;
    report.title = report.executable = report.job_id = HOSTILE WEB_PLACEHOLDER;
    report.processes = (struct io_report_process[]){{815, HOSTILE}, {816, HOSTILE}};
    report.files = &file;
    report.file_count = 1;
    assert_int_equal(io_report_html_put(&report, &about, 1, &html), 0);
    static const char *const marks[] = {"<script", "</script", "<!--", "<img", "</title"};
    for (size_t i = 0; i < array_size(marks); i++)
        assert_int_equal(occurrences(html.data, marks[i]), occurrences(plain.data, marks[i]));
}

/* ---- buffers ---- */

static void test_full_buffer_is_an_error(void **state)
{
    (void)state;
    const struct io_report report = typical_report();
    int (*const formats[])(const struct io_report *, const struct io_finding *, size_t,
                           struct buf *) = {io_report_text_put, io_report_json_put, io_report_html_put};
    for (size_t i = 0; i < array_size(formats); i++) {
        _cleanup_buf_ struct buf whole = {0};
        assert_int_equal(formats[i](&report, &finding, 1, &whole), 0);
        _cleanup_buf_ struct buf exact = {.max_bytes = whole.size}, full = {.max_bytes = whole.size - 1};
        assert_int_equal(formats[i](&report, &finding, 1, &exact), 0);
        assert_int_equal(formats[i](&report, &finding, 1, &full), -EFBIG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_of_a_report),
        cmocka_unit_test(test_text_without_operations_says_why),
        cmocka_unit_test(test_json_without_operations_says_why),
        cmocka_unit_test(test_text_states_losses_first),
        cmocka_unit_test(test_text_fits_the_terminal),
        cmocka_unit_test(test_text_without_control_characters),
        cmocka_unit_test(test_only_files_with_the_most_time_are_listed),
        cmocka_unit_test(test_json_of_a_report),
        cmocka_unit_test(test_json_escapes_names),
        cmocka_unit_test(test_page_holds_the_json),
        cmocka_unit_test(test_hostile_names_stay_inside_the_page),
        cmocka_unit_test(test_full_buffer_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
