/* The stack of work on a GPU: the kernel or copy, the mark of a graph, then the launch without its observers. */
#include "signals/gpu_time/gpu_frames.h"

#include "gpu_time_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define LABELS " gpu.device=0 gpu.work=kernel"

static struct gpu_frames frames;

static int begin(void **state)
{
    (void)state;
    memset(&fake_resolver, 0, sizeof(fake_resolver));
    return 0;
}

static int end(void **state)
{
    (void)state;
    gpu_frames_clear(&frames);
    return 0;
}

static void assert_put(const struct fake_sum *sum, const uint64_t *launch, uint16_t count, const char *without,
                       const char *expected)
{
    const struct fake_launch l = fake_launch(1, 1, launch, count);
    struct sample s;
    char text[8192];
    __wrap_sample_resolve(NULL, &l.record, NULL, &s);
    assert_int_equal(gpu_frames_put(&frames, NULL, &sum->sum, without, &s), 0);
    describe_sample(&s, text, sizeof(text));
    assert_string_equal(text, expected);
    assert_ptr_equal(s.type, &sample_type_gpu);
    assert_int_equal(s.frames[0].kind, FRAME_GPU);
}

static void test_observers_are_not_in_the_stack(void **state)
{
    const struct fake_sum sum = fake_sum(1, 1, "gemm");
    (void)state;
    assert_put(&sum, (const uint64_t[]){IN_LIBRARY, IN_CUPTI, 70, 80}, 4, NULL, "1: gemm;f70;f80 x2 100" LABELS);
    assert_put(&sum, (const uint64_t[]){70, IN_CUPTI, 80}, 3, NULL, "1: gemm;f70;f2;f80 x2 100" LABELS);
    assert_put(&sum, (const uint64_t[]){IN_LIBRARY}, 1, NULL, "1: gemm x2 100" LABELS);
}

static void test_kernels_of_a_graph_are_marked(void **state)
{
    struct fake_sum sum = fake_sum(1, 1, "gemm");
    (void)state;
    sum.sum.is_graph = 1;
    assert_put(&sum, (const uint64_t[]){70}, 1, NULL, "1: gemm;[CUDA graph];f70 x2 100" LABELS);
    assert_put(&sum, NULL, 0, GPU_FRAMES_LOST, "1: gemm;[CUDA graph];[launch stack lost] x2 100" LABELS);
}

static void test_copies_are_no_functions(void **state)
{
    struct fake_sum sum = fake_sum(1, 1, "copy host to device"), set = fake_sum(1, 1, "memset");
    (void)state;
    sum.sum.work = GPU_WORK_COPY;
    sum.sum.device = UINT32_MAX;
    assert_put(&sum, (const uint64_t[]){70}, 1, NULL,
               "1: [copy host to device];f70 x2 100 gpu.device=4294967295 gpu.work=copy");
    set.sum.work = GPU_WORK_SET;
    assert_put(&set, (const uint64_t[]){70}, 1, NULL, "1: [memset];f70 x2 100 gpu.device=0 gpu.work=memset");
}

static void test_a_kernel_without_a_name(void **state)
{
    const struct fake_sum sum = fake_sum(1, 1, "");
    (void)state;
    assert_put(&sum, (const uint64_t[]){70}, 1, NULL, "1: [unnamed kernel];f70 x2 100" LABELS);
}

static void test_the_longest_name_is_whole(void **state)
{
    char name[GPU_NAME_MAX + 1], expected[GPU_NAME_MAX + 64];
    (void)state;
    memset(name, 'x', GPU_NAME_MAX);
    name[GPU_NAME_MAX] = '\0';
    struct fake_sum sum = fake_sum(1, 1, name);
    sum.sum.work = GPU_WORK_COPY; /* with brackets */
    snprintf(expected, sizeof(expected), "1: [%s];f70 x2 100 gpu.device=0 gpu.work=copy", name);
    assert_put(&sum, (const uint64_t[]){70}, 1, NULL, expected);
}

static void test_names_are_demangled_once(void **state)
{
    const struct fake_sum sum = fake_sum(1, 1, "_Z4gemmPf");
    (void)state;
    fake_resolver.demangle_error = -ETIMEDOUT; /* another time it may be known */
    assert_put(&sum, (const uint64_t[]){70}, 1, NULL, "1: _Z4gemmPf;f70 x2 100" LABELS);
    fake_resolver.demangle_error = 0;
    for (int i = 0; i < 3; i++)
        assert_put(&sum, (const uint64_t[]){70}, 1, NULL, "1: readable _Z4gemmPf;f70 x2 100" LABELS);
    assert_int_equal(fake_resolver.demangled, 2);
}

/* More names than the cache holds: each gets its own. */
static void test_many_names_are_not_mixed_up(void **state)
{
    char name[32], expected[128];
    (void)state;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 5000; i++) {
            snprintf(name, sizeof(name), "_Z4k%03dv", i);
            snprintf(expected, sizeof(expected), "1: readable %s;f70 x2 100" LABELS, name);
            const struct fake_sum sum = fake_sum(1, 1, name);
            assert_put(&sum, (const uint64_t[]){70}, 1, NULL, expected);
        }
}

static void test_labels_are_sorted_and_unique(void **state)
{
    const struct fake_sum sum = fake_sum(1, 1, "gemm");
    (void)state;
    fake_resolver.labels[0] = (struct sample_label){"gpu.device", "by the program"};
    fake_resolver.labels[1] = (struct sample_label){"gpu.work", "by the program"};
    fake_resolver.labels[2] = (struct sample_label){"route", "/a"};
    fake_resolver.label_count = 3;
    assert_put(&sum, (const uint64_t[]){70}, 1, NULL, "1: gemm;f70 x2 100" LABELS " route=/a");
    for (size_t i = 0; i < GO_LABELS_MAX; i++)
        fake_resolver.labels[i] =
            (struct sample_label){(const char *const[]){"a", "b", "c", "d", "e", "f", "h", "i"}[i], "v"};
    fake_resolver.label_count = GO_LABELS_MAX;
    assert_put(&sum, (const uint64_t[]){70}, 1, NULL, "1: gemm;f70 x2 100 a=v b=v c=v d=v e=v f=v" LABELS " h=v i=v");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_observers_are_not_in_the_stack, begin, end),
        cmocka_unit_test_setup_teardown(test_kernels_of_a_graph_are_marked, begin, end),
        cmocka_unit_test_setup_teardown(test_copies_are_no_functions, begin, end),
        cmocka_unit_test_setup_teardown(test_a_kernel_without_a_name, begin, end),
        cmocka_unit_test_setup_teardown(test_the_longest_name_is_whole, begin, end),
        cmocka_unit_test_setup_teardown(test_names_are_demangled_once, begin, end),
        cmocka_unit_test_setup_teardown(test_many_names_are_not_mixed_up, begin, end),
        cmocka_unit_test_setup_teardown(test_labels_are_sorted_and_unique, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
