/* A GPU that does not finish the work of a process is one event, and ordinary load is none. */
#include "signal_events_fixture.h"

#include "base/clock.h"
#include "signals/cuda_activity.h"
#include "signals/gpu/gpu_hangs.h"
#include "signals/process_threads.h"
#include "sources/gpu/gpu.h"

#include "probes/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS 1000000000ull
#define AFTER_NS  (30 * SECOND_NS)
#define POLL_NS   (5 * SECOND_NS)
#define NO_PID    4194304 /* larger than any */

static struct cuda_activity calls;
static struct gpu_hangs hangs;
static struct gpu_list list;
static struct gpu_hang last;
static unsigned found;
static uint64_t now_ns;

static void keep_hang(void *context, const struct gpu_hang *hang)
{
    (void)context;
    last = *hang;
    found++;
}

static struct gpu_device device(uint32_t index, uint64_t busy)
{
    struct gpu_device d = {.h = {.size_bytes = sizeof(d), .kind = RECORD_GPU_DEVICE},
                           .index = index,
                           .instance = GPU_NO_INSTANCE,
                           .known = 1ull << GPU_UTILIZATION,
                           .values = {[GPU_UTILIZATION] = busy},
                           .name = "NVIDIA H100"};
    snprintf(d.uuid, sizeof(d.uuid), "GPU-%u", index);
    snprintf(d.pci, sizeof(d.pci), "0000:3%u:00.0", index);
    return d;
}

static struct gpu_process process(uint32_t device, uint32_t pid, uint32_t busy)
{
    return (struct gpu_process){
        .h = {.size_bytes = sizeof(struct gpu_process), .kind = RECORD_GPU_PROCESS, .pid = pid, .tid = pid},
        .device = device,
        .instance = GPU_NO_INSTANCE,
        .busy = busy};
}

static int begin(void **state)
{
    (void)state;
    calls = (struct cuda_activity){0};
    hangs = (struct gpu_hangs){.after_ns = AFTER_NS};
    list.device_count = list.process_count = 0;
    found = 0;
    now_ns = 1000 * SECOND_NS;
    return 0;
}

/* What one process of PID NO_PID has done by now. waited_ns 0: it does not wait. */
static void read_calls(uint64_t launches, uint64_t waited_ns)
{
    struct cuda_activity_process p = {.pid = NO_PID, .launches = launches};
    p.waiting_tid = waited_ns ? NO_PID + 1 : 0;
    p.waiting_ns = waited_ns ? now_ns - waited_ns : 0;
    cuda_activity_update(&calls, &p, 1, now_ns);
}

/* The only process on its device; then five seconds pass. */
static void poll_busy(uint64_t busy)
{
    list.device_count = list.process_count = 0;
    gpu_list_add_device(&list, &(const struct gpu_device){0});
    list.devices[0] = device(0, busy);
    list.processes[list.process_count++] = process(0, NO_PID, UINT32_MAX);
    gpu_hangs_poll(&hangs, &list, &calls, now_ns, keep_hang, NULL);
    now_ns += POLL_NS;
}

static void test_a_hang_is_found_once_after_the_threshold(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        read_calls(70, i * POLL_NS + SECOND_NS);
        poll_busy(100);
        assert_int_equal(found, i * POLL_NS >= AFTER_NS);
    }
    assert_int_equal(last.pid, NO_PID);
    assert_int_equal(last.device->index, 0);
    assert_int_equal(last.waited_ns, 31 * SECOND_NS);
    assert_int_equal(last.idle_ns, 30 * SECOND_NS);
    for (unsigned i = 0; i < 10; i++) { /* the next wait hangs as well */
        read_calls(71, i * POLL_NS + SECOND_NS);
        poll_busy(100);
    }
    assert_int_equal(found, 2);
}

static void test_each_part_of_the_evidence_is_needed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100; i++) { /* it launches */
        read_calls(i, i * POLL_NS + SECOND_NS);
        poll_busy(100);
    }
    begin(state);
    for (unsigned i = 0; i < 100; i++) { /* short waits */
        read_calls(7, SECOND_NS);
        poll_busy(100);
    }
    begin(state);
    for (unsigned i = 0; i < 100; i++) { /* it works on the CPU, and the GPU on what was launched before */
        read_calls(7, 0);
        poll_busy(100);
    }
    begin(state);
    for (unsigned i = 0; i < 100; i++) { /* the GPU has nothing to do now and then */
        read_calls(7, i * POLL_NS + SECOND_NS);
        poll_busy(i % 6 ? 100 : 94);
    }
    begin(state);
    for (unsigned i = 0; i < 100; i++) /* its calls are not counted */
        poll_busy(100);
    assert_int_equal(found, 0);
}

/* An hour of steps that take up to 20 seconds. */
static void test_an_hour_of_ordinary_load_is_no_hang(void **state)
{
    uint64_t launches = 0, step_ns = now_ns;
    (void)state;
    srand(36);
    for (unsigned i = 0; i < 720; i++) {
        if (now_ns - step_ns > (uint64_t)(rand() % 20) * SECOND_NS) {
            launches += 1 + (unsigned)rand() % 1000;
            step_ns = now_ns;
        }
        read_calls(launches, now_ns - step_ns);
        poll_busy(95 + (unsigned)rand() % 6);
    }
    assert_int_equal(found, 0);
}

/* The other process keeps the GPU busy, and this one waits for an event that does not come. */
static void test_a_gpu_that_others_keep_busy_is_no_evidence(void **state)
{
    static const struct {
        uint32_t busy;
        unsigned found;
    } cases[] = {{UINT32_MAX, 0}, {3, 0}, {97, 1}};
    for (size_t c = 0; c < 3; c++) {
        begin(state);
        for (unsigned i = 0; i < 10; i++, now_ns += POLL_NS) {
            read_calls(7, i * POLL_NS + SECOND_NS);
            list.device_count = 1;
            list.devices[0] = device(0, 100);
            list.process_count = 2;
            list.processes[0] = process(0, NO_PID, cases[c].busy);
            list.processes[1] = process(0, 77, UINT32_MAX);
            gpu_hangs_poll(&hangs, &list, &calls, now_ns, keep_hang, NULL);
        }
        assert_int_equal(found, cases[c].found);
    }
}

static void test_another_device_is_no_evidence(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100; i++, now_ns += POLL_NS) {
        read_calls(7, i * POLL_NS + SECOND_NS);
        list.device_count = 2;
        list.devices[0] = device(0, 3);
        list.devices[1] = device(1, 100);
        list.process_count = 1;
        list.processes[0] = process(0, NO_PID, UINT32_MAX);
        gpu_hangs_poll(&hangs, &list, &calls, now_ns, keep_hang, NULL);
    }
    list.devices[0].index = 4711;
    list.processes[0].device = 4711;
    gpu_hangs_poll(&hangs, &list, &calls, now_ns, keep_hang, NULL);
    assert_int_equal(found, 0);
}

/* ---- events ---- */

static char emitted[8192];
static struct signal_services services;

static void keep_event(void *pipeline, const struct node_event *event)
{
    const size_t used = strlen(emitted);
    (void)pipeline;
    event_text(event, emitted + used, sizeof(emitted) - used);
}

static void take(const struct signal *gpu, void *self, void *record)
{
    struct record_header *h = record;
    h->time_ns = now_ns;
    assert_true(signals_check_record(h));
    for (const struct record_type *type = gpu->records; type->kind; type++)
        if (type->kind == h->kind)
            type->take(self, h);
}

static void test_the_events_have_the_last_calls_of_the_process(void **state)
{
    const struct signal *gpu = signal_named("gpu");
    struct gpu_options options = {.enabled = true, .hang_after_ns = 10 * SECOND_NS};
    struct gpu_poll end = {.h = {.size_bytes = sizeof(end), .kind = RECORD_GPU_POLL}, .devices = 1};
    struct gpu_device d = device(0, 100);
    struct gpu_process p = process(0, NO_PID, UINT32_MAX);
    struct gpu_xid xid = {.h = {.size_bytes = sizeof(xid), .kind = RECORD_GPU_XID, .pid = NO_PID, .tid = NO_PID},
                          .code = 31,
                          .pci = "0000:30:00",
                          .process = "train",
                          .text = "Ch 8"};
    void *self;
    (void)state;
    emitted[0] = '\0';
    services = (struct signal_services){.emit_event = keep_event, .cuda_activity = &calls};
    assert_int_equal(gpu->create(&services, &options, NULL, &self), 0);
    for (unsigned i = 0; i < 3; i++, now_ns += POLL_NS) {
        read_calls(12345, i * POLL_NS + SECOND_NS);
        take(gpu, self, &d);
        take(gpu, self, &p);
        take(gpu, self, &end);
    }
    assert_string_equal(emitted,
                        "gpu.hang: GPU 0 (NVIDIA H100, 0000:30:00.0) does not finish the work of a process (pid "
                        "4194304): thread 4194305 has waited for it for 11.0 s in one call, no kernel was "
                        "launched for 10.0 s, and it is busy all the time; hw.id=GPU-0; hw.name=NVIDIA H100; "
                        "pci.address=0000:30:00.0; process.pid=4194304; thread.id=4194305; launches=12345");
    emitted[0] = '\0';
    take(gpu, self, &xid);
    assert_non_null(strstr(emitted,
                           ", of train (pid 4194304): Ch 8; launches counted: 12345, the last one about 15.0 s "
                           "before; thread 4194305 had waited for the GPU for 16.0 s. What to do: restart"));
    gpu->destroy(self);
}

static struct frame named(const char *function, const char *mapping)
{
    struct frame f = frame_of_text(FRAME_NATIVE, function);
    f.mapping = mapping;
    return f;
}

/* The event waits for the stacks of the threads, and not for ever. */
static void test_the_event_has_the_stacks_of_the_threads(void **state)
{
    const uint32_t pid = (uint32_t)getpid();
    const struct signal *gpu = signal_named("gpu");
    struct gpu_options options = {.enabled = true, .hang_after_ns = 10 * SECOND_NS};
    struct gpu_poll end = {.h = {.size_bytes = sizeof(end), .kind = RECORD_GPU_POLL}, .devices = 1};
    struct gpu_device d = device(0, 100);
    struct gpu_process p = process(0, pid, UINT32_MAX);
    struct frame frames[] = {named("poll", "/lib/libc.so.6"), named("cuInternal", "/lib/libcuda.so.575"),
                             named("cuStreamSynchronize", "/lib/libcuda.so.575"), named("forward", "")};
    struct process_threads *threads;
    void *self;
    (void)state;
    frames[3].kind = FRAME_INTERPRETED;
    frames[3].file = "/srv/train.py";
    frames[3].line = 7;
    assert_int_equal(process_threads_new(&threads), 0);
    for (unsigned round = 0; round < 2; round++) {
        emitted[0] = '\0';
        services = (struct signal_services){.emit_event = keep_event, .cuda_activity = &calls, .threads = threads};
        assert_int_equal(gpu->create(&services, &options, NULL, &self), 0);
        for (unsigned i = 0; i < 4; i++, now_ns += POLL_NS) {
            struct cuda_activity_process c = {
                .pid = pid, .launches = 3, .waiting_tid = pid, .waiting_ns = now_ns - (i * POLL_NS + SECOND_NS)};
            cuda_activity_update(&calls, &c, 1, now_ns);
            take(gpu, self, &d);
            take(gpu, self, &p);
            take(gpu, self, &end);
        }
        gpu->turn(self, NULL);
        assert_string_equal(emitted, "");
        assert_int_equal(process_threads_asked(threads), pid);
        if (round == 0) {
            process_threads_put_stack(threads, pid, frames, 4);
            process_threads_put_stack(threads, pid + 1, frames, 1); /* a thread that has ended */
            process_threads_complete(threads);
            gpu->turn(self, NULL);
            assert_non_null(strstr(emitted, " has waited for it for 11.0 s in cuStreamSynchronize, no kernel was "));
            assert_non_null(strstr(emitted, "; call=cuStreamSynchronize; launches=3; threads="));
            assert_non_null(strstr(emitted, ":\npoll\ncuInternal\ncuStreamSynchronize\nforward train.py:7"));
        } else { /* the signal "threads" does not answer */
            assert_true(process_threads_is_ready(threads, clock_monotonic_ns() + PROCESS_THREADS_PATIENCE_NS));
            gpu->turn(self, NULL);
            assert_non_null(strstr(emitted, " has waited for it for 11.0 s in one call, no kernel was "));
            assert_null(strstr(emitted, "stacks="));
        }
        const char *once = strstr(emitted, "gpu.hang");
        gpu->turn(self, NULL);
        assert_null(strstr(once + 1, "gpu.hang"));
        gpu->destroy(self);
        begin(state);
    }
    process_threads_free(threads);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_hang_is_found_once_after_the_threshold),
        TEST(test_each_part_of_the_evidence_is_needed),
        TEST(test_an_hour_of_ordinary_load_is_no_hang),
        TEST(test_a_gpu_that_others_keep_busy_is_no_evidence),
        TEST(test_another_device_is_no_evidence),
        TEST(test_the_events_have_the_last_calls_of_the_process),
        TEST(test_the_event_has_the_stacks_of_the_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
