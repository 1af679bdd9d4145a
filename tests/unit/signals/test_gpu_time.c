/* Launches and sums of libsonde-cuda become samples. A program writes both, and may write anything: its records are
 * checked, the totals never wrap, and memory stays bounded. */
#include "gpu_time_fixture.h"
#include "signal_events_fixture.h"

#include "base/buf.h"
#include "signals/gpu_time/launch_stacks.h"

#include <malloc.h>
#include <stdlib.h>

#define A      100 /* processes */
#define B      200
#define KERNEL " gpu.device=0 gpu.work=kernel\n"

static const struct signal *gpu_time;
static void *self;
static char emitted[8192];
static uint64_t all_count, all_ns;
static struct losses losses;

static void keep_sample(void *pipeline, const struct sample *sample)
{
    const size_t used = strlen(emitted);
    (void)pipeline;
    describe_sample(sample, emitted + used, sizeof(emitted) - used);
    strncat(emitted, "\n", sizeof(emitted) - strlen(emitted) - 1);
    all_count += sample->count;
    all_ns += sample->value;
}

static void note_stack(void *pipeline, uint32_t pid, uint64_t cgroup_id, uint64_t time_ns)
{
    (void)pipeline, (void)pid, (void)cgroup_id, (void)time_ns;
}

static const struct signal_services services = {
    .losses = &losses, .emit_sample = keep_sample, .note_stack = note_stack};

static int begin(void **state)
{
    (void)state;
    memset(&fake_resolver, 0, sizeof(fake_resolver));
    memset(&losses, 0, sizeof(losses));
    emitted[0] = '\0';
    all_count = all_ns = 0;
    gpu_time = signal_named("gpu_time");
    return gpu_time->create(&services, NULL, NULL, &self);
}

static int end(void **state)
{
    (void)state;
    gpu_time->destroy(self);
    return 0;
}

static void take(const struct record_header *header)
{
    size_t at;
    assert_true(signals_check_record(header));
    signals_record_type(header->kind, &at)->take(self, header);
}

static void launch(uint32_t pid, uint32_t number, uint64_t frame)
{
    const struct fake_launch l = fake_launch(pid, number, &frame, 1);
    take(&l.record.h);
}

static void sum(uint32_t pid, uint32_t number, const char *name)
{
    const struct fake_sum s = fake_sum(pid, number, name);
    take(&s.sum.h);
}

static struct gpu_window window_record(uint32_t pid, enum gpu_window_state state)
{
    return (struct gpu_window){
        .h = {.size_bytes = sizeof(struct gpu_window), .kind = RECORD_GPU_WINDOW, .time_ns = 1, .pid = pid},
        .state = state};
}

static void window(uint32_t pid, enum gpu_window_state state)
{
    const struct gpu_window w = window_record(pid, state);
    take(&w.h);
}

static void assert_emitted(const char *expected)
{
    assert_string_equal(emitted, expected);
    emitted[0] = '\0';
}

static void assert_summary(const char *expected)
{
    _cleanup_buf_ struct buf text = {0};
    gpu_time->summarize(self, &text);
    assert_string_equal(text.size ? text.data : "", expected);
}

/* ---- the join ---- */

static void test_a_sum_has_the_stack_of_its_launch(void **state)
{
    (void)state;
    assert_summary("");
    launch(A, 7, 70);
    launch(A, 8, 80);
    sum(A, 8, "gemm");
    sum(A, 7, "gemm");
    sum(A, 7, "norm"); /* a launch may run several kernels, or the same ones in several ticks */
    sum(A, 7, "gemm");
    assert_emitted("100: gemm;f80 x2 100" KERNEL "100: gemm;f70 x2 100" KERNEL "100: norm;f70 x2 100" KERNEL
                   "100: gemm;f70 x2 100" KERNEL);
    assert_summary("; 8 kernels, copies and memsets");
}

static void test_processes_may_use_the_same_numbers(void **state)
{
    (void)state;
    launch(A, 7, 70);
    launch(B, 7, 71);
    sum(A, 7, "gemm");
    sum(B, 7, "gemm");
    assert_emitted("100: gemm;f70 x2 100" KERNEL "200: gemm;f71 x2 100" KERNEL);
}

static void test_a_number_that_comes_again_is_the_last_launch(void **state)
{
    (void)state;
    launch(A, 7, 70);
    launch(A, 7, 71);
    sum(A, 7, "gemm");
    assert_emitted("100: gemm;f71 x2 100" KERNEL);
}

static void test_executions_without_a_stack_are_counted(void **state)
{
    (void)state;
    sum(A, 0, "gemm");
    sum(A, 7, "gemm");
    assert_emitted("100: gemm;[launch stack not taken] x2 100" KERNEL "100: gemm;[launch stack lost] x2 100" KERNEL);
    assert_summary("; 4 kernels, copies and memsets; 2 of unknown launches; 2 whose launch stack was lost");
}

/* Times of records say nothing about which launch a sum belongs to. */
static void test_times_may_go_backwards(void **state)
{
    const uint64_t frame = 70;
    struct fake_launch l = fake_launch(A, 7, &frame, 1);
    struct fake_sum s = fake_sum(A, 7, "gemm");
    (void)state;
    l.record.h.time_ns = UINT64_MAX;
    s.sum.h.time_ns = 0;
    take(&l.record.h);
    take(&s.sum.h);
    assert_emitted("100: gemm;f70 x2 100" KERNEL);
}

/* ---- the life of processes ---- */

static void test_an_exec_forgets_the_launches(void **state)
{
    (void)state;
    window(A, GPU_WINDOW_BEGAN);
    launch(A, 7, 70);
    launch(B, 7, 71);
    gpu_time->before_exec(self, A);
    sum(A, 7, "gemm"); /* of the new program, whose launch was lost */
    sum(B, 7, "gemm");
    assert_emitted("100: gemm;[launch stack lost] x2 100" KERNEL "200: gemm;f71 x2 100" KERNEL);
    launch(A, 7, 72);
    sum(A, 7, "gemm");
    assert_emitted("100: gemm;f72 x2 100" KERNEL);
    assert_summary("; 6 kernels, copies and memsets; 2 whose launch stack was lost; 1 processes that ended without "
                   "their last report");
}

static void test_an_exit_forgets_the_launches(void **state)
{
    (void)state;
    window(A, GPU_WINDOW_BEGAN);
    launch(A, 7, 70);
    gpu_time->exited(self, A, A + 1); /* a thread */
    sum(A, 7, "gemm");
    assert_emitted("100: gemm;f70 x2 100" KERNEL);
    gpu_time->exited(self, A, 0);
    sum(A, 7, "gemm"); /* of another process with the same PID */
    assert_emitted("100: gemm;[launch stack lost] x2 100" KERNEL);
}

static void test_windows_are_summed(void **state)
{
    struct gpu_window w = window_record(A, GPU_WINDOW_ENDED);
    (void)state;
    w.launches = 10;
    w.stacks = 4;
    w.untimed = 3;
    w.dropped = 2;
    w.unnamed = 1;
    window(A, GPU_WINDOW_BEGAN);
    window(B, GPU_WINDOW_BEGAN);
    take(&w.h);
    w.h.pid = B;
    take(&w.h);
    assert_summary("; 0 kernels, copies and memsets; stacks of 8 of 20 launches, chosen at random; 6 left out: without "
                   "plausible times, or not finished; 4 dropped by CUPTI; 2 beyond the limit of kernel names");
}

/* A GPU that hangs, or a profiler that began in the window and took CUPTI's buffers over. */
static void test_launches_without_any_result_are_explained(void **state)
{
    struct gpu_window w = window_record(A, GPU_WINDOW_ENDED);
    (void)state;
    window(A, GPU_WINDOW_BEGAN);
    w.launches = w.stacks = 10;
    take(&w.h);
    assert_summary("; 0 kernels, copies and memsets; 10 launches, none reported as finished: their work is still "
                   "running, or another profiler reads CUPTI");
    sum(A, 0, "gemm");
    assert_summary("; 2 kernels, copies and memsets; 2 of unknown launches");
}

/* A ring that was full loses sums. Where a process reported no end, the number is not known. */
static void test_lost_sums_are_counted(void **state)
{
    struct gpu_window w = window_record(A, GPU_WINDOW_ENDED);
    (void)state;
    window(A, GPU_WINDOW_BEGAN);
    sum(A, 0, "gemm");
    w.executions = 5;
    take(&w.h);
    assert_summary("; 2 kernels, copies and memsets; 2 of unknown launches; 3 whose records were lost");
    window(B, GPU_WINDOW_BEGAN);
    assert_summary("; 2 kernels, copies and memsets; 2 of unknown launches; 1 processes that ended without their last "
                   "report");
}

static void test_a_refusal_is_explained(void **state)
{
    struct gpu_window w = window_record(A, GPU_WINDOW_REFUSED);
    (void)state;
    snprintf(w.reason, sizeof(w.reason), "another\n\033[31m profiler\xff");
    w.error = 39;
    take(&w.h);
    assert_summary("; 0 kernels, copies and memsets; 1 processes not recorded (pid 100: another??[31m "
                   "profiler\xef\xbf\xbd, error 39)");
}

/* ---- hostile records ---- */

static void test_malformed_launches_are_refused(void **state)
{
    const uint64_t frame = 70;
    const struct fake_launch sound = fake_launch(A, UINT32_MAX, &frame, 1);
    struct fake_launch l = sound;
    (void)state;
    assert_true(signals_check_record(&l.record.h));
    l.record.sample.value = 0;
    assert_false(signals_check_record(&l.record.h));
    l.record.sample.value = (uint64_t)UINT32_MAX + 1;
    assert_false(signals_check_record(&l.record.h));
    l = sound;
    l.record.user_frames = 2;
    assert_false(signals_check_record(&l.record.h));
    l = sound;
    l.record.h.size_bytes = sizeof(l.record) - 8;
    assert_false(signals_check_record(&l.record.h));
}

static void refuse_sum(const struct fake_sum *s)
{
    assert_false(signals_check_record(&s->sum.h));
}

static void test_malformed_sums_are_refused(void **state)
{
    const struct fake_sum sound = fake_sum(A, 7, "kernel_9");
    struct fake_sum s = sound;
    (void)state;
    assert_true(signals_check_record(&s.sum.h));
    s.sum.count = 0;
    refuse_sum(&s);
    s = sound;
    s.sum.work = GPU_WORK_COUNT;
    refuse_sum(&s);
    s = sound;
    s.sum.is_graph = 2;
    refuse_sum(&s);
    s = sound;
    s.sum.name_bytes = 9; /* longer than the record */
    refuse_sum(&s);
    s.sum.name_bytes = UINT16_MAX;
    refuse_sum(&s);
    s.sum.name_bytes = 0; /* shorter */
    refuse_sum(&s);
    s = sound;
    s.name[3] = '\0';
    refuse_sum(&s);
    s = sound;
    s.sum.h.size_bytes = sizeof(struct record_header);
    refuse_sum(&s);
    s.sum.h.size_bytes = sizeof(s.sum) + 4;
    refuse_sum(&s);
    s.sum.h.size_bytes = UINT32_MAX;
    refuse_sum(&s);
    s = fake_sum(A, 7, "");
    s.sum.h.size_bytes = sizeof(s.sum) + GPU_NAME_MAX + 1 + 8;
    s.sum.name_bytes = GPU_NAME_MAX + 1;
    memset(s.name, 'x', GPU_NAME_MAX + 1);
    refuse_sum(&s);
}

static void test_malformed_windows_are_refused(void **state)
{
    struct gpu_window w = window_record(A, GPU_WINDOW_STATE_COUNT);
    (void)state;
    assert_false(signals_check_record(&w.h));
    w = window_record(A, GPU_WINDOW_REFUSED);
    memset(w.reason, 'x', sizeof(w.reason)); /* not terminated */
    assert_false(signals_check_record(&w.h));
    w = window_record(A, GPU_WINDOW_ENDED);
    w.h.size_bytes -= 8;
    assert_false(signals_check_record(&w.h));
}

/* The values of a profile are signed 64-bit numbers (pprof). */
static void test_totals_do_not_wrap(void **state)
{
    struct fake_sum s = fake_sum(A, 0, "k");
    (void)state;
    s.sum.ns = UINT64_MAX;
    take(&s.sum.h);
    s.sum.ns = 1;
    s.sum.count = UINT64_MAX;
    take(&s.sum.h);
    assert_int_equal(all_count, 0);
    assert_int_equal(losses.count[LOSS_DECODE], 2);
    for (int i = 0; i < 3; i++) {
        s.sum.ns = s.sum.count = INT64_MAX / 2;
        take(&s.sum.h);
    }
    assert_int_equal(all_count, INT64_MAX - 1);
    assert_int_equal(all_ns, INT64_MAX - 1);
    assert_int_equal(losses.count[LOSS_DECODE], 3);
    sum(B, 0, "k"); /* more than what is left */
    assert_int_equal(all_count, INT64_MAX - 1);
    assert_int_equal(losses.count[LOSS_DECODE], 4);
}

static void test_counters_of_windows_do_not_wrap(void **state)
{
    struct gpu_window w = window_record(A, GPU_WINDOW_ENDED);
    (void)state;
    w.launches = w.stacks = w.dropped = UINT64_MAX;
    window(A, GPU_WINDOW_BEGAN);
    take(&w.h);
    take(&w.h);
    assert_summary("; 0 kernels, copies and memsets; 18446744073709551615 dropped by CUPTI");
}

/* Launches whose work never ends, and a new kernel each time. */
static void test_a_flood_takes_bounded_memory(void **state)
{
    enum { PER_ROUND = 20000, ROUNDS = 10 };
    char name[32];
    size_t before = 0;
    (void)state;
    for (uint32_t i = 0; i < ROUNDS * PER_ROUND; i++) {
        snprintf(name, sizeof(name), "_Z7k%06d", (int)i);
        launch(A, i + 1, i);
        sum(A, i + 1, name);
        emitted[0] = '\0';
        if (i == PER_ROUND)
            before = mallinfo2().uordblks;
    }
    assert_true(mallinfo2().uordblks <= before + before / 8);
    sum(A, ROUNDS * PER_ROUND - LAUNCH_STACKS_MAX, "first");
    sum(A, ROUNDS * PER_ROUND - LAUNCH_STACKS_MAX + 1, "second");
    assert_emitted("100: first;[launch stack lost] x2 100" KERNEL "100: second;f183616 x2 100" KERNEL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_sum_has_the_stack_of_its_launch, begin, end),
        cmocka_unit_test_setup_teardown(test_processes_may_use_the_same_numbers, begin, end),
        cmocka_unit_test_setup_teardown(test_a_number_that_comes_again_is_the_last_launch, begin, end),
        cmocka_unit_test_setup_teardown(test_executions_without_a_stack_are_counted, begin, end),
        cmocka_unit_test_setup_teardown(test_times_may_go_backwards, begin, end),
        cmocka_unit_test_setup_teardown(test_an_exec_forgets_the_launches, begin, end),
        cmocka_unit_test_setup_teardown(test_an_exit_forgets_the_launches, begin, end),
        cmocka_unit_test_setup_teardown(test_windows_are_summed, begin, end),
        cmocka_unit_test_setup_teardown(test_launches_without_any_result_are_explained, begin, end),
        cmocka_unit_test_setup_teardown(test_lost_sums_are_counted, begin, end),
        cmocka_unit_test_setup_teardown(test_a_refusal_is_explained, begin, end),
        cmocka_unit_test_setup_teardown(test_malformed_launches_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_malformed_sums_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_malformed_windows_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_totals_do_not_wrap, begin, end),
        cmocka_unit_test_setup_teardown(test_counters_of_windows_do_not_wrap, begin, end),
        cmocka_unit_test_setup_teardown(test_a_flood_takes_bounded_memory, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
