/* Metrics of a process's calls of libcuda: a kind of calls that is not counted has no series. */
#include "signals/cuda/cuda_metrics.h"
#include "signals/process_labels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Writes "NAME CALL=VALUE " of each point; CALL of those without: "-". */
static void metrics_text(const struct cuda_process *process, uint32_t counted, char *out, size_t size)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    struct process_labels labels;
    size_t used = 0;
    assert_int_equal(metric_set_new(&set), 0);
    process_labels_fill(NULL, 42, &labels);
    cuda_metrics_put(process, counted, labels.list, set);
    assert_int_equal(metric_set_error(set), 0);
    out[0] = '\0';
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family f = metric_set_family(set, i);
        for (size_t p = 0; p < f.point_count; p++) {
            const struct metric_point *point = &f.points[p];
            const bool has_call = point->label_count > PROCESS_LABELS;
            assert_string_equal(point->labels[0].value, "42");
            used += (size_t)snprintf(out + used, size - used, "%s %s=%g ", f.name,
                                     has_call ? point->labels[PROCESS_LABELS].value : "-", point->value);
        }
    }
}

static const struct cuda_process process = {.calls = {[CUDA_CALL_LAUNCH] = 5, [CUDA_CALL_SYNCHRONIZE] = 2},
                                            .synchronize_ns = 1500000000};

static void test_each_kind_is_a_series(void **state)
{
    char text[512];
    (void)state;
    metrics_text(&process, (1u << CUDA_CALLS) - 1, text, sizeof(text));
    assert_string_equal(text, "sonde_gpu_process_calls launch=5 sonde_gpu_process_calls graph_launch=0 "
                              "sonde_gpu_process_calls copy=0 sonde_gpu_process_calls allocation=0 "
                              "sonde_gpu_process_calls synchronize=2 sonde_gpu_process_synchronize_seconds -=1.5 ");
}

static void test_a_kind_that_is_not_counted_is_absent(void **state)
{
    char text[512];
    (void)state;
    metrics_text(&process, 1u << CUDA_CALL_LAUNCH | 1u << CUDA_CALL_COPY, text, sizeof(text));
    assert_string_equal(text, "sonde_gpu_process_calls launch=5 sonde_gpu_process_calls copy=0 ");
    metrics_text(&process, 0, text, sizeof(text));
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_kind_is_a_series),
        cmocka_unit_test(test_a_kind_that_is_not_counted_is_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
