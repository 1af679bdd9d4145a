/* Tables, JSON and verdicts of `sonde gpu`: rates are growth between two readings of an agent, and what is not known is
 * not 0. */
#include "cli/gpu/gpu_text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

static struct gpu_list list;
static struct agent_gpu before, now;
static struct gpu_view view;
static char verdict_text[GPU_VERDICT_BYTES];

static struct gpu_device *add_device(uint32_t index)
{
    struct gpu_device d = {.index = index, .instance = GPU_NO_INSTANCE, .name = "NVIDIA H100"};
    snprintf(d.uuid, sizeof(d.uuid), "GPU-%u", index);
    gpu_list_add_device(&list, &d);
    return &list.devices[list.device_count - 1];
}

static void set(struct gpu_device *d, enum gpu_value value, uint64_t number)
{
    d->known |= 1ull << value;
    d->values[value] = number;
}

static void add_process(uint32_t device, uint32_t pid)
{
    gpu_list_add_process(
        &list, &(struct gpu_process){
                   .h.pid = pid, .device = device, .instance = GPU_NO_INSTANCE, .memory = 1 << 30, .busy = 60});
}

/* A reading of an agent at `time_s`, which has counted this since it began. */
static void read_agent(struct agent_gpu *ret, double time_s, uint32_t pid, unsigned launches, unsigned graphs,
                       double waited_s)
{
    static const char format[] =
        "# TYPE sonde_cuda_timestamp_seconds gauge\n"
        "sonde_build_info{version=\"0.1.0\"} 1\n"
        "sonde_cuda_timestamp_seconds %f\n"
        "sonde_cuda_attachments 5\n"
        "sonde_gpu_process_calls_total{pid=\"%u\",service_name=\"trainer\",call=\"launch\"} %u\n"
        "sonde_gpu_process_calls_total{pid=\"%u\",service_name=\"trainer\",call=\"graph_launch\"} "
        "%u\n"
        "sonde_gpu_process_calls_total{pid=\"%u\",service_name=\"trainer\",call=\"copy\"} 7\n"
        "sonde_gpu_process_synchronize_seconds_total{pid=\"%u\",service_name=\"trainer\"} %f\n";
    char text[2048];
    snprintf(text, sizeof(text), format, time_s, pid, launches, pid, graphs, pid, pid, waited_s);
    assert_int_equal(agent_gpu_parse(text, ret), 0);
}

static int begin(void **state)
{
    (void)state;
    list.device_count = list.process_count = 0;
    view = (struct gpu_view){.list = &list, .driver = "575.57.08", .calls_missing = ""};
    return prctl(PR_SET_NAME, "train");
}

/* In two seconds. */
static void measure(uint32_t pid, unsigned launches, double waited_s)
{
    read_agent(&before, 1000, pid, 50, 5, 10);
    read_agent(&now, 1002, pid, 50 + launches, 5, 10 + waited_s);
    view.before = &before;
    view.now = &now;
    view.interval_ns = 2000000000;
}

static void expect_verdict(enum gpu_verdict expected, const char *text)
{
    assert_int_equal(gpu_verdict_of(&view, &list.devices[0], verdict_text), expected);
    assert_string_equal(verdict_text, text);
}

static void expect_verdict_of(unsigned busy, unsigned launches, double waited_s, enum gpu_verdict expected,
                              const char *text)
{
    char full[GPU_VERDICT_BYTES];
    const uint32_t pid = (uint32_t)getpid();
    begin(NULL);
    set(add_device(0), GPU_UTILIZATION, busy);
    add_process(0, pid);
    measure(pid, launches, waited_s);
    snprintf(full, sizeof(full), text, pid);
    expect_verdict(expected, full);
}

static void test_the_verdict_has_its_evidence(void **state)
{
    (void)state;
    expect_verdict_of(
        96, 24690, 1.82, GPU_VERDICT_GPU_BOUND,
        "bound by the GPU: busy 96 %% of the time; train (%u) waits for it 91 %%, 12345 launches a second");
    expect_verdict_of(
        100, 0, 2, GPU_VERDICT_GPU_BOUND,
        "bound by the GPU: busy 100 %% of the time; train (%u) waits for it 100 %% and launches nothing: a "
        "long kernel or a hang (sonde events --kind gpu)");
    expect_verdict_of(31, 20000, 0.06, GPU_VERDICT_NOT_KEPT_BUSY,
                      "not kept busy: busy 31 %% of the time; train (%u) waits for it 3 %%, 10000 launches a second");
    expect_verdict_of(75, 20000, 0.6, GPU_VERDICT_MIXED,
                      "busy 75 %% of the time; train (%u) waits for it 30 %%, 10000 launches a second");
    expect_verdict_of(0, 0, 0, GPU_VERDICT_IDLE, "idle: nothing runs on it, though 1 process uses it");
    expect_verdict_of(0, 0, 2, GPU_VERDICT_MIXED,
                      "busy 0 %% of the time; train (%u) waits for it 100 %%, 0 launches a second");
}

static void test_the_interval_counts_where_the_device_measures_it(void **state)
{
    (void)state;
    expect_verdict_of(
        100, 20000, 1.9, GPU_VERDICT_GPU_BOUND,
        "bound by the GPU: busy 100 %% of the time; train (%u) waits for it 95 %%, 10000 launches a second");
    set(&list.devices[0], GPU_ENGINE_ACTIVE, 4000);
    assert_int_equal(gpu_verdict_of(&view, &list.devices[0], verdict_text), GPU_VERDICT_MIXED);
}

static void test_without_counts_there_is_no_verdict(void **state)
{
    (void)state;
    set(add_device(0), GPU_UTILIZATION, 83);
    expect_verdict(GPU_VERDICT_UNKNOWN, "busy 83 % of the time; the driver lists no process on it");
    add_process(0, 42);
    expect_verdict(GPU_VERDICT_UNKNOWN, "busy 83 % of the time; whether programs wait for it is not known");
    measure(43, 1000, 0); /* of another process */
    expect_verdict(GPU_VERDICT_UNKNOWN, "busy 83 % of the time; whether programs wait for it is not known");
    list.devices[0].known = 0;
    expect_verdict(GPU_VERDICT_UNKNOWN, "its driver does not report its use");
    list.process_count = 0;
    set(&list.devices[0], GPU_UTILIZATION, 0);
    expect_verdict(GPU_VERDICT_IDLE, "idle: no process uses it");
    set(&list.devices[0], GPU_REMAP_FAILED, 1);
    expect_verdict(GPU_VERDICT_FAULTY, "damaged memory");
    list.devices[0].status = 15;
    expect_verdict(GPU_VERDICT_FAULTY, "lost");
}

/* The agent was restarted, or had to detach in between. */
static void test_counts_that_begin_again_have_no_rate(void **state)
{
    double rate;
    (void)state;
    measure(42, 100, 1);
    assert_true(gpu_view_launch_rate(&view, 42, &rate));
    assert_true(rate == 50);
    view.before = &now;
    view.now = &before;
    before.time_s = 1004;
    assert_false(gpu_view_launch_rate(&view, 42, &rate));
    assert_true(gpu_view_rate(&view, 42, AGENT_GPU_COPIES, &rate));
    assert_true(rate == 0);
    before.time_s = now.time_s; /* the same reading again */
    assert_false(gpu_view_rate(&view, 42, AGENT_GPU_COPIES, &rate));
    assert_false(gpu_view_rate(&view, 42, AGENT_GPU_ALLOCATIONS, &rate)); /* not counted */
}

static void expect_in(const struct buf *out, const char *part)
{
    if (!strstr(out->data, part)) {
        print_error("%s\nhas no\n%s\n", out->data, part);
        fail();
    }
}

static void test_the_tables_name_what_is_missing(void **state)
{
    _cleanup_buf_ struct buf out = {0};
    (void)state;
    view.calls_missing = "no agent runs";
    set(add_device(0), GPU_UTILIZATION, 83);
    gpu_text_put(&view, &out);
    expect_in(&out, "NVIDIA driver 575.57.08\n");
    expect_in(&out, "\nNo process uses a GPU.\n");
    add_process(0, 4194304);
    out.size = 0;
    gpu_text_put(&view, &out);
    expect_in(&out,
              "\n0      4194304   60 %    1.00 GiB           -           -       -  -                -\nLaunches, "
              "copies and waits are not known: no agent runs\n\nGPU 0: busy 83 %");
    view.processes = 3;
    out.size = 0;
    gpu_text_put(&view, &out);
    expect_in(&out, "\nand 2 more processes\nLaunches");
    list.process_count = 0;
    out.size = 0;
    gpu_text_put(&view, &out);
    expect_in(&out, "\n3 processes use GPUs, too many to be listed.\n\nGPU 0: busy 83 % of the time; whether programs");
    list.device_count = 0;
    out.size = 0;
    gpu_text_put(&view, &out);
    assert_string_equal(out.data, "NVIDIA driver 575.57.08\n\nNo GPU: the driver lists none.\n");
}

static void test_a_process_has_its_rates_and_its_service(void **state)
{
    _cleanup_buf_ struct buf out = {0};
    char row[256];
    const uint32_t pid = (uint32_t)getpid();
    (void)state;
    set(add_device(0), GPU_UTILIZATION, 96);
    add_process(0, pid);
    measure(pid, 24690, 1.82);
    gpu_text_put(&view, &out);
    snprintf(row, sizeof(row),
             "\n0     %8u   60 %%    1.00 GiB       12345           0    91 %%  train            trainer\n", pid);
    expect_in(&out, row);
}

static void test_json_has_only_known_values(void **state)
{
    _cleanup_buf_ struct buf out = {0};
    char expected[1024];
    const uint32_t pid = (uint32_t)getpid();
    (void)state;
    struct gpu_device *d = add_device(0);
    set(d, GPU_UTILIZATION, 96);
    set(d, GPU_POWER, 612500);
    add_process(0, pid);
    measure(pid, 24690, 1.82);
    gpu_text_put_json(&view, &out);
    snprintf(
        expected, sizeof(expected),
        "{\"interval_ns\":2000000000,\"driver\":\"575.57.08\",\"devices\":[{\"gpu\":0,\"hw_id\":\"GPU-0\","
        "\"name\":\"NVIDIA H100\",\"utilization\":0.96,\"power_watts\":612.5,\"state\":\"ok\","
        "\"verdict\":\"gpu_bound\",\"verdict_text\":\"bound by the GPU: busy 96 %% of the time; train (%u) waits for "
        "it 91 %%, 12345 launches a second\"}],\"processes\":[{\"gpu\":0,\"pid\":%u,\"command\":\"train\","
        "\"service_name\":\"trainer\",\"utilization\":0.6,\"memory_bytes\":1073741824,\"launches_per_second\":12345,"
        "\"graph_launches_per_second\":0,\"copies_per_second\":0,\"waiting_threads\":0.91}],\"processes_omitted\":0}\n",
        pid, pid);
    assert_string_equal(out.data, expected);
}

static void test_metrics_of_another_program_are_refused(void **state)
{
    char text[] = "go_goroutines 7\n";
    (void)state;
    assert_int_equal(agent_gpu_parse(text, &now), -EBADMSG);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_verdict_has_its_evidence),       TEST(test_the_interval_counts_where_the_device_measures_it),
        TEST(test_without_counts_there_is_no_verdict), TEST(test_counts_that_begin_again_have_no_rate),
        TEST(test_the_tables_name_what_is_missing),    TEST(test_a_process_has_its_rates_and_its_service),
        TEST(test_json_has_only_known_values),         TEST(test_metrics_of_another_program_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
