/* Every allocation fails once: nothing crashes or leaks (ASan), losses are counted, and the file stays a valid array.
 */
#include "fixture.h"

#include "../../allocations.h"

#include <errno.h>

static void one_request(struct fixture *f)
{
    const int32_t values[64] = {1};
    const int64_t shape = 64;
    struct sonde_trace_request request = {sizeof(request), "id", 2, NULL};
    struct sonde_trace *t = sonde_trace_start(f->model, &request), *child = sonde_trace_child(t, f->model);
    for (int i = 0; i < 30; i++)
        sonde_trace_timestamp(child, SONDE_TRACE_QUEUE_START);
    sonde_trace_tensor(t, SONDE_TRACE_TENSOR_QUEUE_INPUT,
                       &(struct sonde_trace_tensor){"x", "INT32", &shape, 1, values, sizeof(values)});
    sonde_trace_end(t, SONDE_TRACE_ERROR, "why");
    sonde_trace_end(child, SONDE_TRACE_OK, NULL);
    assert_int_equal(sonde_trace_manager_flush(f->manager, 20000), 0);
}

static void test_allocation_failures_of_requests(void **state)
{
    (void)state;
    struct fixture f;
    uint64_t lost = 0;
    int n = 0;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS", "level=TENSORS");
    for (bool failed = true; failed; n++) {
        allocations_fail_at((size_t)n);
        one_request(&f);
        failed = allocations_failed;
        allocations_fail_at(SIZE_MAX);
        struct sonde_trace_stats s = fixture_stats(&f);
        lost = s.dropped_write + s.dropped_queue;
        assert_int_equal(s.written + lost, n + 1);
    }
    assert_in_range(n, 6, 100);
    assert_in_range(lost, 1, n - 1);
    char *text = fixture_read(&f, "");
    assert_true(text[0] == '[' && text[strlen(text) - 1] == ']');
    free(text);
    fixture_close(&f);
}

/* 0 or -ENOMEM; returns whether it succeeded. */
static bool send_settings(void)
{
    static const char body[] = "{\"trace_rate\":\"5\",\"trace_level\":[\"TIMESTAMPS\",\"TENSORS\"]}";
    struct sonde_trace_config *config = NULL;
    struct sonde_trace_manager *m = NULL;
    struct sonde_trace_model *model = NULL;
    struct sonde_trace_reply *reply = NULL;
    char *answer = NULL, *argv[] = {"server", "--trace-config", "rate=1", NULL};
    int argc = 3;
    unsigned status = 0;
    int r = sonde_trace_config_new(&config);
    if (r == 0)
        r = sonde_trace_config_take(config, &argc, argv, NULL, 0);
    if (r == 0)
        r = sonde_trace_config_set(config, "--trace-config", "triton,file=/nonexistent", NULL, 0);
    if (r == 0)
        r = sonde_trace_manager_new(config, NULL, &m, NULL, 0);
    if (r == 0)
        r = sonde_trace_model_new(m, "m", 1, &model);
    if (r == 0)
        r = sonde_trace_http(m, "POST", "/v2/models/m/trace/setting", body, sizeof(body) - 1, &status, &answer);
    if (r == 0 && status == 500) /* the response itself reports that there is no memory */
        r = -ENOMEM;
    if (r == 0)
        assert_int_equal(status, 200);
    if (r == 0)
        r = sonde_trace_grpc(m, "m", NULL, 0, &reply, NULL, 0) == 8 ? -ENOMEM : 0;
    assert_true(r == 0 || r == -ENOMEM);
    sonde_trace_reply_free(reply);
    sonde_trace_free(answer);
    sonde_trace_model_free(model);
    sonde_trace_manager_free(m);
    sonde_trace_config_free(config);
    return r == 0;
}

static void test_allocation_failures_of_settings_and_protocol(void **state)
{
    (void)state;
    int n = 0, silent = 0;
    for (bool failed = true; failed; n++) {
        allocations_fail_at((size_t)n);
        bool good = send_settings();
        failed = allocations_failed;
        allocations_fail_at(SIZE_MAX);
        assert_true(good || failed);
        silent += good && failed; /* a failure in the probes leaves all else working */
    }
    assert_in_range(n, 10, 200);
    assert_in_range(silent, 1, 20);
}

static bool no_threads;
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    return no_threads ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}

/* Once a thread starts, later requests are written. */
static void test_writer_thread_cannot_start(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    no_threads = true;
    one_request(&f);
    one_request(&f);
    no_threads = false;
    assert_int_equal(f.error, EAGAIN);
    assert_int_equal(fixture_stats(&f).dropped_write, 2);
    assert_null(fixture_read(&f, ""));
    one_request(&f);
    assert_int_equal(fixture_stats(&f).written, 1);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocation_failures_of_requests),
                                       cmocka_unit_test(test_allocation_failures_of_settings_and_protocol),
                                       cmocka_unit_test(test_writer_thread_cannot_start)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
