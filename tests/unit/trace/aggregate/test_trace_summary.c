/* Summaries of traces, with values computed by hand. */
#include "trace/aggregate/trace_summary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct strings *names;

static int make_names(void **state)
{
    (void)state;
    return strings_new(&names) < 0 || strings_add(names, "a") != 1 || strings_add(names, "b") != 2;
}

static int free_names(void **state)
{
    (void)state;
    strings_free(names);
    return 0;
}

static struct trace_summary *make_summary(size_t slowest)
{
    struct trace_summary *s;
    const struct trace_summary_options options = {.names = names, .percentiles = true, .slowest = slowest};
    assert_int_equal(trace_summary_new(&options, &s), 0);
    return s;
}

#define TRACE(number, name, frontend, ...)                                                                             \
    (&(struct triton_trace){.id = number,                                                                              \
                            .has_model = true,                                                                         \
                            .model = name,                                                                             \
                            .model_version = 1,                                                                        \
                            .frontends = frontend,                                                                     \
                            .moments = (struct triton_moment[]){__VA_ARGS__},                                          \
                            .moment_count =                                                                            \
                                sizeof((struct triton_moment[]){__VA_ARGS__}) / sizeof(struct triton_moment)})

#define HANDLED(begin, end)                                                                                            \
    {begin, TRITON_REQUEST_START},                                                                                     \
    {                                                                                                                  \
        end, TRITON_REQUEST_END                                                                                        \
    }

static void assert_sum(const struct trace_model_sum *m, enum trace_span span, uint64_t count, int64_t sum_ns)
{
    assert_int_equal(m->spans[span].count, count);
    assert_true(m->spans[span].sum_ns == sum_ns);
}

static void test_http_summary(void **state)
{
    (void)state;
    _cleanup_(trace_summary_freep) struct trace_summary *s = make_summary(0);
    assert_int_equal(
        trace_summary_add(s,
                          TRACE(7, 1, TRITON_HTTP, {100, TRITON_HTTP_RECV_START}, {110, TRITON_HTTP_RECV_END},
                                HANDLED(130, 230), {135, TRITON_QUEUE_START}, {150, TRITON_COMPUTE_START},
                                {160, TRITON_COMPUTE_INPUT_END}, {190, TRITON_COMPUTE_OUTPUT_START},
                                {210, TRITON_COMPUTE_END}, {240, TRITON_HTTP_SEND_START}, {260, TRITON_HTTP_SEND_END})),
        1);
    assert_int_equal(trace_summary_add(s, TRACE(3, 2, TRITON_HTTP, HANDLED(0, 5))), 1);
    assert_int_equal(trace_summary_add(s, TRACE(8, 1, TRITON_HTTP, {0, TRITON_HTTP_RECV_START}, HANDLED(0, 1000))), 1);
    const struct trace_sums *sums = trace_summary_finish(s);
    assert_int_equal(sums->model_count[TRACE_HTTP], 2);
    assert_int_equal(sums->model_count[TRACE_GRPC], 0);
    assert_string_equal(sums->models[TRACE_HTTP][0].name, "b"); /* its id is the lowest */
    const struct trace_model_sum *m = &sums->models[TRACE_HTTP][1];
    assert_int_equal(m->traces, 2);
    assert_sum(m, TRACE_INFER, 1, 160);
    assert_sum(m, TRACE_RECEIVE, 1, 10);
    assert_sum(m, TRACE_SEND, 1, 20);
    assert_sum(m, TRACE_FRONTEND_OVERHEAD, 1, 160 - 100 - 10 - 20);
    assert_sum(m, TRACE_HANDLER, 2, 1100);
    assert_sum(m, TRACE_QUEUE, 1, 15);
    assert_sum(m, TRACE_COMPUTE, 1, 60);
    assert_sum(m, TRACE_OVERHEAD, 1, 25);
    assert_sum(m, TRACE_COMPUTE_INPUT, 1, 10);
    assert_sum(m, TRACE_COMPUTE_INFER, 1, 30);
    assert_sum(m, TRACE_COMPUTE_OUTPUT, 1, 20);
}

static void test_grpc_begins_when_the_request_was_read(void **state)
{
    (void)state;
    _cleanup_(trace_summary_freep) struct trace_summary *s = make_summary(0);
    assert_int_equal(
        trace_summary_add(s, TRACE(1, 1, TRITON_GRPC, {0, TRITON_GRPC_WAITREAD_START}, {1000, TRITON_GRPC_WAITREAD_END},
                                   HANDLED(1010, 1050), {1060, TRITON_GRPC_SEND_START}, {1075, TRITON_GRPC_SEND_END})),
        1);
    const struct trace_model_sum *m = trace_summary_finish(s)->models[TRACE_GRPC];
    assert_sum(m, TRACE_INFER, 1, 75);
    assert_sum(m, TRACE_RECEIVE, 0, 0);
    assert_sum(m, TRACE_SEND, 1, 15);
    assert_sum(m, TRACE_FRONTEND_OVERHEAD, 1, 75 - 40 - 15);
}

static void test_excluded_traces_are_counted(void **state)
{
    (void)state;
    _cleanup_(trace_summary_freep) struct trace_summary *s = make_summary(5);
    assert_int_equal(trace_summary_add(s, TRACE(1, 1, 0, HANDLED(0, 1))), 0);
    assert_int_equal(trace_summary_add(s, TRACE(2, 1, TRITON_HTTP, {0, TRITON_REQUEST_START})), 0);
    struct triton_trace *unnamed = TRACE(3, 1, TRITON_HTTP, HANDLED(0, 1));
    unnamed->has_model = false;
    assert_int_equal(trace_summary_add(s, unnamed), 0);
    assert_int_equal(trace_summary_add(s, TRACE(4, 1, TRITON_HTTP, HANDLED(9, 1))), 1);
    const struct trace_sums *sums = trace_summary_finish(s);
    assert_int_equal(sums->losses.no_frontend, 1);
    assert_int_equal(sums->losses.unfinished, 1);
    assert_int_equal(sums->losses.unnamed, 1);
    assert_int_equal(sums->losses.backwards, 1);
    assert_int_equal(sums->slowest_count, 0);
    assert_sum(sums->models[TRACE_HTTP], TRACE_HANDLER, 0, 0);
}

static void test_model_count_is_bounded(void **state)
{
    (void)state;
    _cleanup_(trace_summary_freep) struct trace_summary *s = make_summary(0);
    for (int i = 0; i < TRACE_MODELS_MAX + 3; i++) {
        struct triton_trace *t = TRACE(1, 1, TRITON_HTTP, HANDLED(0, 1));
        t->model_version = i;
        assert_int_equal(trace_summary_add(s, t), i < TRACE_MODELS_MAX);
    }
    assert_int_equal(trace_summary_finish(s)->losses.models, 3);
}

static void test_sums_beyond_64_bits(void **state)
{
    (void)state;
    _cleanup_(trace_summary_freep) struct trace_summary *s = make_summary(0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(trace_summary_add(s, TRACE(1, 1, TRITON_HTTP, HANDLED(0, INT64_MAX))), 1);
    assert_true(trace_summary_finish(s)->models[TRACE_HTTP]->spans[TRACE_HANDLER].sum_ns == (__int128)INT64_MAX * 4);
}

static void test_slowest_request_is_kept(void **state)
{
    (void)state;
    static const uint64_t durations[] = {5, 90, 20, 70, 90, 1, 60, 33};
    _cleanup_(trace_summary_freep) struct trace_summary *s = make_summary(3);
    for (uint64_t i = 0; i < array_size(durations); i++)
        assert_int_equal(trace_summary_add(s, TRACE(i, 1, TRITON_HTTP, HANDLED(0, durations[i]))), 1);
    struct triton_trace *part = TRACE(99, 1, TRITON_HTTP, HANDLED(0, 1000)); /* of a request, which is the one sought */
    part->has_parent = true;
    assert_int_equal(trace_summary_add(s, part), 1);
    const struct trace_sums *sums = trace_summary_finish(s);
    assert_int_equal(sums->slowest_count, 3);
    static const uint64_t ids[] = {1, 4, 3};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(sums->slowest[i].id, ids[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_http_summary),
        cmocka_unit_test(test_grpc_begins_when_the_request_was_read),
        cmocka_unit_test(test_excluded_traces_are_counted),
        cmocka_unit_test(test_model_count_is_bounded),
        cmocka_unit_test(test_sums_beyond_64_bits),
        cmocka_unit_test(test_slowest_request_is_kept),
    };
    return cmocka_run_group_tests(tests, make_names, free_names);
}
