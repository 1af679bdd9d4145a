/* What libsonde-cuda records through a fake CUPTI (tests/gpu/cupti): counts and durations are those that the fake GPU
 * was given, and nothing of the library stays behind. */
#include "cuda/launches.h"
#include "cuda/sums.h"
#include "cuda/window.h"
#include "fake_cuda.h"
#include "fake_cupti.h"
#include "recorder.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define GRAPH_KERNELS 6
#define ERROR_UNKNOWN 999

static int begin(void **state)
{
    (void)state;
    memset(&recorded, 0, sizeof(recorded));
    *fake_cupti() = (struct fake_cupti){.version = 28};
    return 0;
}

static void assert_sum(const char *name, uint32_t launch, uint64_t count, uint64_t ns)
{
    const struct gpu_sum sum = recorded_sum(name, launch);
    assert_int_equal(sum.count, count);
    assert_int_equal(sum.ns, ns);
}

/* The program calls CUDA once more, which lets the library detach. */
static void close_window(void)
{
    window_close(false);
    assert_false(fake_cupti()->subscribed);
    for (size_t i = 0; i < FAKE_KINDS; i++)
        assert_false(fake_cupti()->kinds[i]);
}

static void test_counts_and_durations_are_exact(void **state)
{
    void *gemm = fake_kernel("_Z4gemmPf", 1500), *reduce = fake_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 70);
    (void)state;
    cuLaunchKernel(gemm); /* before the window */
    window_open();
    assert_int_equal(recorded.windows[GPU_WINDOW_BEGAN], 1);
    cuLaunchKernel(gemm);
    const uint32_t first = fake_correlation();
    cuLaunchKernel(gemm);
    const uint32_t second = fake_correlation();
    cuLaunchKernel(reduce);
    cuMemcpyHtoD_v2(300);
    cuMemcpyDtoH_v2(400);
    cuMemsetD8_v2(5);
    window_tick();
    cuLaunchKernel(gemm);
    close_window();
    cuLaunchKernel(gemm); /* after it */
    assert_sum("_Z4gemmPf", first, 1, 1500);
    assert_sum("_Z4gemmPf", second, 1, 1500);
    assert_sum("_Z4gemmPf", NO_LAUNCH, 3, 4500);
    assert_sum("copy host to device", NO_LAUNCH, 1, 300);
    assert_sum("copy device to host", NO_LAUNCH, 1, 400);
    assert_sum("memset", NO_LAUNCH, 1, 5);
    assert_int_equal(recorded_sum("ncclDevKernel_AllReduce_Sum_f32_RING_LL", NO_LAUNCH).work, GPU_WORK_NCCL);
    assert_int_equal(recorded_sum("_Z4gemmPf", NO_LAUNCH).work, GPU_WORK_KERNEL);
    assert_int_equal(recorded_sum("memset", NO_LAUNCH).work, GPU_WORK_SET);
    assert_int_equal(recorded_sum("copy host to device", NO_LAUNCH).work, GPU_WORK_COPY);
    assert_int_equal(recorded.window.state, GPU_WINDOW_ENDED);
    assert_int_equal(recorded.window.launches, 7);
    assert_int_equal(recorded.window.stacks, 7);
    assert_int_equal(recorded.window.executions, 7);
    assert_int_equal(recorded.launches, 7);
}

static void test_records_may_come_in_any_order(void **state)
{
    void *kernel = fake_kernel("a", 10), *other = fake_kernel("b", 1000);
    (void)state;
    fake_cupti()->reversed = true;
    window_open();
    cuLaunchKernel(kernel);
    const uint32_t first = fake_correlation();
    cuLaunchKernel(other);
    cuLaunchKernel(kernel);
    close_window();
    assert_sum("a", first, 1, 10);
    assert_sum("a", NO_LAUNCH, 2, 20);
    assert_sum("b", NO_LAUNCH, 1, 1000);
}

/* After some millions of graph nodes, CUPTI delivers times of 0, and ends before the start. */
static void test_executions_without_plausible_times_are_counted(void **state)
{
    void *kernel = fake_kernel("k", 10);
    (void)state;
    window_open();
    fake_execution(kernel, 1, 0, 0);
    fake_execution(kernel, 1, 0, 5000);
    fake_execution(kernel, 1, 5000, 4000);
    fake_execution(kernel, 1, 5000, 0); /* not finished at a forced flush */
    cuLaunchKernel(kernel);
    close_window();
    assert_int_equal(recorded.window.untimed, 4);
    assert_sum("k", NO_LAUNCH, 1, 10);
}

static void test_steps_back_from_another_profiler(void **state)
{
    (void)state;
    fake_cupti()->other_subscriber = true;
    window_open();
    cuLaunchKernel(fake_kernel("k", 10));
    window_tick();
    close_window();
    assert_int_equal(recorded.windows[GPU_WINDOW_REFUSED], 1);
    assert_int_equal(recorded.windows[GPU_WINDOW_BEGAN] + recorded.windows[GPU_WINDOW_ENDED], 0);
    assert_int_equal(recorded.window.error, CUPTI_MULTIPLE_SUBSCRIBERS);
    assert_string_equal(recorded.window.reason, "another profiler is subscribed to CUPTI");
    assert_int_equal(recorded.launches + recorded.sum_count, 0);
    assert_int_equal(fake_cupti()->finalize_count, 0); /* it would end the other one's work */
}

static void test_an_error_undoes_what_was_done(void **state)
{
    (void)state;
    fake_cupti()->enable_error[CUPTI_KIND_MEMSET] = ERROR_UNKNOWN;
    window_open();
    assert_int_equal(recorded.windows[GPU_WINDOW_REFUSED], 1);
    assert_int_equal(recorded.window.error, ERROR_UNKNOWN);
    close_window();
    fake_cupti()->enable_error[CUPTI_KIND_MEMSET] = 0;
    fake_cupti()->register_error = ERROR_UNKNOWN;
    window_open();
    assert_int_equal(recorded.windows[GPU_WINDOW_REFUSED], 2);
    close_window();
}

static void test_only_known_versions_are_read(void **state)
{
    static const uint32_t refused[] = {12, 14, 140000};
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        fake_cupti()->version = refused[i];
        window_open();
        assert_int_equal(recorded.windows[GPU_WINDOW_REFUSED], i + 1);
        assert_string_equal(recorded.window.reason, "this version of CUPTI is not supported");
        close_window();
    }
}

static void test_dropped_records_are_counted(void **state)
{
    void *kernel = fake_kernel("k", 10);
    (void)state;
    window_open();
    fake_cupti()->to_drop = 17;
    cuLaunchKernel(kernel);
    window_tick();
    cuLaunchKernel(kernel);
    close_window();
    assert_int_equal(recorded.window.dropped, 17);
    assert_sum("k", NO_LAUNCH, 2, 20);
}

static void test_kernels_of_a_graph_belong_to_its_launch(void **state)
{
    void *kernels[GRAPH_KERNELS];
    (void)state;
    for (size_t i = 0; i < GRAPH_KERNELS; i++)
        kernels[i] = i % 2 ? kernels[0] : fake_kernel("k", 100);
    void *graph = fake_graph(kernels, GRAPH_KERNELS);
    window_open();
    cuGraphLaunch(graph);
    const uint32_t launch = fake_correlation();
    cuLaunchKernel(kernels[0]);
    close_window();
    assert_sum("k", launch, GRAPH_KERNELS, GRAPH_KERNELS * 100);
    assert_int_equal(recorded_sum("k", launch).is_graph, 1);
    assert_int_equal(recorded_sum("k", launch + 1).is_graph, 0);
    assert_int_equal(recorded.launches, 2);
}

/* The driver's call inside one of the runtime has another number; records may name either. */
static void test_a_call_of_the_runtime_is_one_launch(void **state)
{
    void *kernel = fake_kernel("k", 10);
    (void)state;
    window_open();
    cudaLaunchKernel(kernel);
    const uint32_t inner = fake_correlation(), outer = inner - 1;
    fake_execution(kernel, outer, 5000, 5007);
    cuLaunchKernel(kernel);
    close_window();
    assert_int_equal(recorded.launches, 2);
    assert_sum("k", outer, 2, 17);
    assert_sum("k", inner, 0, 0);
}

/* Above the limit stacks are chosen at random; the sums of each kernel stay exact. */
static void test_a_fast_program_is_sampled(void **state)
{
    enum { LAUNCHES = 50000 };
    void *a = fake_kernel("a", 3), *b = fake_kernel("b", 5), *graph = fake_graph((void *[]){a, b}, 2);
    (void)state;
    window_open();
    for (int i = 0; i < LAUNCHES; i++)
        cuLaunchKernel(i % 3 ? a : b);
    assert_int_equal(recorded.launches, 2 * LAUNCHES_PER_TICK); /* the rate is not known yet */
    window_tick();
    recorded.launches = 0;
    for (int i = 0; i < LAUNCHES; i++)
        cuLaunchKernel(i % 3 ? a : b);
    assert_in_range(recorded.launches, LAUNCHES_PER_TICK / 2, 2 * LAUNCHES_PER_TICK);
    const uint32_t last = recorded.last_launch;
    assert_true(last - recorded.first_launch > LAUNCHES / 2); /* not the first ones alone */
    for (int i = 0; i < 100; i++)
        cuGraphLaunch(graph);
    assert_in_range(recorded.launches, LAUNCHES_PER_TICK / 2, 2 * (LAUNCHES_PER_TICK + LAUNCHES_GRAPHS_PER_TICK));
    close_window();
    assert_int_equal(recorded.window.launches, 2 * LAUNCHES + 100);
    assert_int_equal(recorded.all_count, 2 * LAUNCHES + 200);
    const uint64_t of_b = 2 * ((LAUNCHES + 2) / 3);
    assert_sum("b", NO_LAUNCH, of_b + 100, (of_b + 100) * 5);
    assert_sum("a", NO_LAUNCH, 2 * LAUNCHES - of_b + 100, (2 * LAUNCHES - of_b + 100) * 3);
}

static void test_a_million_names_take_bounded_memory(void **state)
{
    enum { NAMES = SUMS_KERNELS_MAX + 1000 };
    char name[32];
    (void)state;
    window_open();
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(name, sizeof(name), "kernel_%u", i);
        cuLaunchKernel(fake_kernel(name, 2));
    }
    close_window();
    assert_sum("kernel_0", NO_LAUNCH, 1, 2);
    assert_sum("[more kernels]", NO_LAUNCH, 1000, 2000);
    assert_int_equal(recorded.window.unnamed, 1000);
    assert_int_equal(recorded.all_count, NAMES);
    assert_int_equal(recorded.all_ns, 2 * NAMES);
}

static void test_a_long_name_is_truncated(void **state)
{
    char name[GPU_NAME_MAX + 10];
    (void)state;
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    window_open();
    cuLaunchKernel(fake_kernel(name, 2));
    cuLaunchKernel(fake_kernel("", 3));
    close_window();
    name[GPU_NAME_MAX] = '\0';
    assert_sum(name, NO_LAUNCH, 1, 2);
    assert_sum("", NO_LAUNCH, 1, 3);
}

static size_t heap_bytes(void)
{
    return mallinfo2().uordblks;
}

static void test_many_windows_leave_nothing_behind(void **state)
{
    void *kernel = fake_kernel("k", 10);
    size_t before = 0;
    (void)state;
    for (int i = 0; i < 50; i++) {
        window_open();
        cuLaunchKernel(kernel);
        window_tick();
        cuLaunchKernel(kernel);
        close_window();
        cuLaunchKernel(kernel);
        if (i == 0)
            before = heap_bytes();
    }
    assert_int_equal(heap_bytes(), before);
    assert_int_equal(recorded.windows[GPU_WINDOW_ENDED], 50);
    assert_sum("k", NO_LAUNCH, 100, 1000);
}

static void test_many_records_take_bounded_memory(void **state)
{
    enum { RECORDS = 2000000, PER_TICK = 100000 };
    void *kernel = fake_kernel("k", 10);
    size_t before = 0;
    (void)state;
    window_open();
    for (int i = 0; i < RECORDS; i++) {
        cuLaunchKernel(kernel);
        if (i % PER_TICK == 0)
            window_tick();
        if (i == PER_TICK)
            before = heap_bytes();
    }
    window_tick();
    assert_true(heap_bytes() <= before);
    close_window();
    assert_int_equal(fake_cupti()->no_buffer, 0);
    assert_int_equal(recorded.all_count, RECORDS);
    assert_int_equal(recorded.all_ns, 10ull * RECORDS);
}

/* Detaching frees CUPTI's own memory, and is safe at the end of a call. */
static void test_detaches_at_the_end_of_a_call(void **state)
{
    void *kernel = fake_kernel("k", 10);
    (void)state;
    fake_cupti()->version = 23; /* detaching crashes programs with graphs */
    window_open();
    cuLaunchKernel(kernel);
    close_window();
    assert_int_equal(fake_cupti()->finalize_count, 0);
    window_open();
    cuLaunchKernel(kernel);
    close_window();
    assert_int_equal(recorded.windows[GPU_WINDOW_ENDED], 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_counts_and_durations_are_exact, begin),
        cmocka_unit_test_setup(test_records_may_come_in_any_order, begin),
        cmocka_unit_test_setup(test_executions_without_plausible_times_are_counted, begin),
        cmocka_unit_test_setup(test_steps_back_from_another_profiler, begin),
        cmocka_unit_test_setup(test_an_error_undoes_what_was_done, begin),
        cmocka_unit_test_setup(test_only_known_versions_are_read, begin),
        cmocka_unit_test_setup(test_dropped_records_are_counted, begin),
        cmocka_unit_test_setup(test_kernels_of_a_graph_belong_to_its_launch, begin),
        cmocka_unit_test_setup(test_a_call_of_the_runtime_is_one_launch, begin),
        cmocka_unit_test_setup(test_a_fast_program_is_sampled, begin),
        cmocka_unit_test_setup(test_a_million_names_take_bounded_memory, begin),
        cmocka_unit_test_setup(test_a_long_name_is_truncated, begin),
        cmocka_unit_test_setup(test_many_windows_leave_nothing_behind, begin),
        cmocka_unit_test_setup(test_many_records_take_bounded_memory, begin),
        cmocka_unit_test_setup(test_detaches_at_the_end_of_a_call, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
