/* Traces as a server creates them, down to the bytes of the file. Ids are unique per process, so these tests read the
 * first id from the first trace. */
#include "fixture.h"
#include "trace/text.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* The expected objects of a request with ids from `id`: each '#' in the pattern is replaced by it, each '^' by the
 * next. */
static char *with_ids(const char *pattern, uint64_t id)
{
    struct trace_text t = {0};
    for (const char *p = pattern; *p; p++)
        if (*p == '#' || *p == '^')
            trace_text_put_u64(&t, id + (*p == '^'));
        else
            trace_text_putc(&t, *p);
    char *text = trace_text_take(&t);
    assert_non_null(text);
    return text;
}

static void expect(struct fixture *f, const char *suffix, const char *pattern, uint64_t id)
{
    char *text = with_ids(pattern, id);
    fixture_expect(f, suffix, text);
    free(text);
}

static void test_file_of_one_request(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS", "level=TENSORS");
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    uint64_t id = sonde_trace_id(t);
    sonde_trace_timestamp_at(t, SONDE_TRACE_HTTP_RECV_START, 10);
    sonde_trace_timestamp_at(t, SONDE_TRACE_HTTP_RECV_END, 20);
    sonde_trace_request_id(t, "s1", 2);
    sonde_trace_timestamp_at(t, SONDE_TRACE_REQUEST_START, 30);
    const int32_t values[] = {1, -2};
    const int64_t shape[] = {1, 2};
    sonde_trace_tensor(t, SONDE_TRACE_TENSOR_QUEUE_INPUT,
                       &(struct sonde_trace_tensor){"INPUT0", "INT32", shape, 2, values, sizeof(values)});
    sonde_trace_custom_at(t, "X_START", 40);
    sonde_trace_timestamp_at(t, SONDE_TRACE_REQUEST_END, UINT64_MAX);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    expect(
        &f, "",
        "[{\"id\":#,\"timestamps\":[{\"name\":\"HTTP_RECV_START\",\"ns\":10}]},"
        "{\"id\":#,\"timestamps\":[{\"name\":\"HTTP_RECV_END\",\"ns\":20}]},"
        "{\"id\":#,\"model_name\":\"m\",\"model_version\":1,\"request_id\":\"s1\"},"
        "{\"id\":#,\"timestamps\":[{\"name\":\"REQUEST_START\",\"ns\":30}]},"
        "{\"id\":#,\"activity\":\"TENSOR_QUEUE_INPUT\",\"tensor\":{\"name\":\"INPUT0\",\"data\":\"1,-2\",\"shape\":\"1,2\",\"dtype\":\"INT32\"}},"
        "{\"id\":#,\"timestamps\":[{\"name\":\"X_START\",\"ns\":40}]},"
        "{\"id\":#,\"timestamps\":[{\"name\":\"REQUEST_END\",\"ns\":18446744073709551615}]}]",
        id);
    struct sonde_trace_stats s = fixture_stats(&f);
    assert_int_equal(s.sampled, 1);
    assert_int_equal(s.written, 1);
    assert_int_equal(s.dropped_queue + s.dropped_write + s.records_dropped + s.tensors_malformed, 0);
    fixture_close(&f);
}

static void test_array_grows_with_requests(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    uint64_t id = sonde_trace_id(t);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    expect(&f, "", "[{\"id\":#,\"model_name\":\"m\",\"model_version\":1}]", id);
    sonde_trace_end(sonde_trace_start(f.model, NULL), SONDE_TRACE_OK, NULL);
    expect(&f, "",
           "[{\"id\":#,\"model_name\":\"m\",\"model_version\":1},{\"id\":^,\"model_name\":\"m\",\"model_version\":1}]",
           id);
    fixture_close(&f);
}

static void test_failed_or_cancelled_request(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    uint64_t id = sonde_trace_id(t);
    sonde_trace_end(t, SONDE_TRACE_ERROR, "no \"input\"");
    sonde_trace_end(sonde_trace_start(f.model, NULL), SONDE_TRACE_CANCELLED, NULL);
    expect(&f, "",
           "[{\"id\":#,\"model_name\":\"m\",\"model_version\":1,\"status\":\"error\",\"error\":\"no \\\"input\\\"\"},"
           "{\"id\":^,\"model_name\":\"m\",\"model_version\":1,\"status\":\"cancelled\"}]",
           id);
    fixture_close(&f);
}

/* An ensemble's step ends after its parent; the request is one trace in the file. */
static void test_child_traces(void **state)
{
    (void)state;
    struct fixture f;
    struct sonde_trace_model *step;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS", "triton,log-frequency=1");
    assert_int_equal(sonde_trace_model_new(f.manager, "step", 7, &step), 0);
    struct sonde_trace *t =
        sonde_trace_start(f.model, &(struct sonde_trace_request){sizeof(struct sonde_trace_request), "e", 1, NULL});
    struct sonde_trace *child = sonde_trace_child(t, step);
    uint64_t id = sonde_trace_id(t);
    assert_int_equal(sonde_trace_id(child), id + 1);
    sonde_trace_model_free(step); /* unloaded while it works */
    sonde_trace_timestamp_at(child, SONDE_TRACE_COMPUTE_START, 5);
    sonde_trace_timestamp_at(t, SONDE_TRACE_REQUEST_START, 4);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    assert_int_equal(sonde_trace_manager_flush(f.manager, 10000), 0);
    assert_null(fixture_read(&f, ".0"));
    sonde_trace_end(child, SONDE_TRACE_OK, NULL);
    expect(&f, ".0",
           "[{\"id\":#,\"model_name\":\"m\",\"model_version\":1,\"request_id\":\"e\"},"
           "{\"id\":#,\"timestamps\":[{\"name\":\"REQUEST_START\",\"ns\":4}]},"
           "{\"id\":^,\"model_name\":\"step\",\"model_version\":7,\"parent_id\":#},"
           "{\"id\":^,\"timestamps\":[{\"name\":\"COMPUTE_START\",\"ns\":5}]}]",
           id);
    assert_null(sonde_trace_child(NULL, f.model));
    assert_null(sonde_trace_start(NULL, NULL));
    fixture_close(&f);
}

static void test_any_bytes_in_ids_and_names(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    uint64_t id = sonde_trace_id(t);
    sonde_trace_request_id(t, "a\"\\\n\0\xff\xc3\xa9\xed\xa0\x80", 11);
    sonde_trace_custom_at(t, "q\"\xf0\x9f\x98\x80\x01", 1);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    expect(
        &f, "",
        "[{\"id\":#,\"model_name\":\"m\",\"model_version\":1,\"request_id\":\"a\\\"\\\\\\u000a\\u0000\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"},"
        "{\"id\":#,\"timestamps\":[{\"name\":\"q\\\"\xf0\x9f\x98\x80\\u0001\",\"ns\":1}]}]",
        id);
    fixture_close(&f);
}

static void test_level_selects_the_records(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=1", "level=TENSORS");
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    uint64_t id = sonde_trace_id(t);
    assert_int_equal(sonde_trace_level(t), SONDE_TRACE_TENSORS);
    assert_int_equal(sonde_trace_level(NULL), 0);
    sonde_trace_timestamp(t, SONDE_TRACE_REQUEST_START);
    sonde_trace_custom(t, "X");
    sonde_trace_timestamp(t, SONDE_TRACE_TENSOR_QUEUE_INPUT);
    sonde_trace_timestamp(t, (enum sonde_trace_activity)4711);
    sonde_trace_tensor(t, SONDE_TRACE_REQUEST_START, &(struct sonde_trace_tensor){"x", "INT8", NULL, 0, "\1", 1});
    sonde_trace_tensor(t, SONDE_TRACE_TENSOR_BACKEND_INPUT,
                       &(struct sonde_trace_tensor){"x", "INT8", NULL, 0, "\1", 1});
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    expect(
        &f, "",
        "[{\"id\":#,\"model_name\":\"m\",\"model_version\":1},"
        "{\"id\":#,\"activity\":\"TENSOR_BACKEND_INPUT\",\"tensor\":{\"name\":\"x\",\"data\":\"1\",\"shape\":\"\",\"dtype\":\"INT8\"}}]",
        id);
    /* All calls accept a NULL trace. */
    sonde_trace_timestamp(NULL, SONDE_TRACE_REQUEST_START);
    sonde_trace_timestamp_at(NULL, SONDE_TRACE_REQUEST_START, 1);
    sonde_trace_custom(NULL, "x");
    sonde_trace_custom_at(NULL, "x", 1);
    sonde_trace_request_id(NULL, "x", 1);
    sonde_trace_tensor(NULL, SONDE_TRACE_TENSOR_QUEUE_INPUT, NULL);
    sonde_trace_end(NULL, SONDE_TRACE_OK, NULL);
    assert_int_equal(sonde_trace_id(NULL), 0);
    fixture_close(&f);
}

/* More records than fit inline, and more than a request may hold. */
static void test_records_are_bounded(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open_with(&f, (struct sonde_trace_options){.request_bytes_max = 16384},
                      (const char *const[]){"rate=1", "level=TIMESTAMPS", NULL});
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    for (int i = 0; i < 5000; i++)
        sonde_trace_timestamp_at(t, SONDE_TRACE_QUEUE_START, (uint64_t)i);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    assert_int_equal(sonde_trace_manager_flush(f.manager, 10000), 0);
    char *text = fixture_read(&f, "");
    int kept = 0;
    for (const char *p = text; (p = strstr(p, "QUEUE_START")); p++)
        kept++;
    assert_in_range(kept, 300, 1024);
    assert_int_equal(fixture_stats(&f).records_dropped, 5000 - kept);
    free(text);
    fixture_close(&f);
}

static void test_a_large_tensor_is_named_without_its_data(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open_with(&f, (struct sonde_trace_options){.tensor_bytes_max = 8},
                      (const char *const[]){"rate=1", "level=TENSORS", NULL});
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    uint64_t id = sonde_trace_id(t);
    const int64_t shape = 12, vast[] = {1 << 16, 1 << 15};
    sonde_trace_tensor(t, SONDE_TRACE_TENSOR_QUEUE_INPUT,
                       &(struct sonde_trace_tensor){"x", "UINT8", &shape, 1, "hello world!", 12});
    /* 2^31 elements declared, with a wrong size: the data is not accessed. */
    sonde_trace_tensor(t, SONDE_TRACE_TENSOR_QUEUE_INPUT,
                       &(struct sonde_trace_tensor){"y", "INT32", vast, 2, "", (size_t)4 << 31});
    sonde_trace_tensor(t, SONDE_TRACE_TENSOR_QUEUE_INPUT,
                       &(struct sonde_trace_tensor){"z", "INT32", vast, 2, "abcd", 4});
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    expect(
        &f, "",
        "[{\"id\":#,\"model_name\":\"m\",\"model_version\":1},"
        "{\"id\":#,\"activity\":\"TENSOR_QUEUE_INPUT\",\"tensor\":{\"name\":\"x\",\"data\":\"\",\"shape\":\"12\",\"dtype\":\"UINT8\","
        "\"error\":\"its 12 bytes were not kept\"}},"
        "{\"id\":#,\"activity\":\"TENSOR_QUEUE_INPUT\",\"tensor\":{\"name\":\"y\",\"data\":\"\",\"shape\":\"65536,32768\",\"dtype\":\"INT32\","
        "\"error\":\"its 8589934592 bytes were not kept\"}},"
        "{\"id\":#,\"activity\":\"TENSOR_QUEUE_INPUT\",\"tensor\":{\"name\":\"z\",\"data\":\"\",\"shape\":\"65536,32768\",\"dtype\":\"INT32\","
        "\"error\":\"the shape declares 8589934592 bytes, the data has 4\"}}]",
        id);
    assert_int_equal(fixture_stats(&f).tensors_too_large, 2);
    assert_int_equal(fixture_stats(&f).tensors_malformed, 1);
    t = sonde_trace_start(f.model, NULL); /* on a device */
    const int64_t two = 2;
    sonde_trace_tensor(t, SONDE_TRACE_TENSOR_QUEUE_INPUT, &(struct sonde_trace_tensor){"x", "UINT8", &two, 1, NULL, 2});
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    assert_int_equal(sonde_trace_manager_flush(f.manager, 10000), 0);
    assert_int_equal(fixture_stats(&f).tensors_too_large, 3);
    fixture_close(&f);
}

static bool run_command(char *const command[])
{
    pid_t pid;
    int status;
    return posix_spawnp(&pid, command[0], NULL, NULL, command, environ) == 0 && waitpid(pid, &status, 0) == pid &&
           status == 0;
}

/* Numbers use a decimal point in any locale. A German locale is compiled for this. */
static void test_numbers_do_not_follow_the_locale(void **state)
{
    (void)state;
    char folder[] = "/tmp/sonde-locale-XXXXXX", made[64];
    assert_non_null(mkdtemp(folder));
    snprintf(made, sizeof(made), "%s/de_DE.UTF-8", folder);
    bool is_made = run_command((char *[]){"localedef", "-i", "de_DE", "-f", "UTF-8", made, NULL});
    setenv("LOCPATH", folder, 1);
    bool is_set = setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
    unsetenv("LOCPATH");
    assert_true(run_command((char *[]){"rm", "-r", folder, NULL}));
    if (!is_made || !is_set) {
        print_message("no locale with a decimal comma can be made (package locales)\n");
        skip();
    }
    char number[8];
    snprintf(number, sizeof(number), "%.1f", 1.5);
    assert_string_equal(number, "1,5");
    struct fixture f;
    fixture_open(&f, "rate=1", "level=TENSORS");
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    const double value = 1.5;
    sonde_trace_tensor(t, SONDE_TRACE_TENSOR_QUEUE_INPUT,
                       &(struct sonde_trace_tensor){"x", "FP64", NULL, 0, &value, 8});
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    assert_int_equal(sonde_trace_manager_flush(f.manager, 10000), 0);
    char *text = fixture_read(&f, "");
    assert_non_null(strstr(text, "\"data\":\"1.5\""));
    free(text);
    fixture_close(&f);
    setlocale(LC_ALL, "C");
}

/* In flight when the manager is freed: it may be stamped and ended, and is not written. */
static void test_request_may_outlive_the_manager(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    sonde_trace_manager_free(f.manager);
    f.manager = NULL;
    sonde_trace_timestamp(t, SONDE_TRACE_REQUEST_START);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    assert_null(fixture_read(&f, ""));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_of_one_request),
        cmocka_unit_test(test_array_grows_with_requests),
        cmocka_unit_test(test_failed_or_cancelled_request),
        cmocka_unit_test(test_child_traces),
        cmocka_unit_test(test_any_bytes_in_ids_and_names),
        cmocka_unit_test(test_level_selects_the_records),
        cmocka_unit_test(test_records_are_bounded),
        cmocka_unit_test(test_a_large_tensor_is_named_without_its_data),
        cmocka_unit_test(test_numbers_do_not_follow_the_locale),
        cmocka_unit_test(test_request_may_outlive_the_manager),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
