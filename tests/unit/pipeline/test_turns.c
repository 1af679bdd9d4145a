/* Turns of the pipeline that have no time, on a recording: they take one record each, and the result is the same. What
 * is left at the end is counted. */
#include "base/turn_time.h"
#include "model/memory_plan.h"
#include "pipeline/pipeline.h"
#include "sources/events/batch.h"
#include "sources/events/record_file.h"

#include <linux/types.h>

#include "probes/cpu.h"
#include "probes/offcpu.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define CACHE_ENTRIES 64
#define BATCH_BYTES   (1 << 20)
#define PART_BYTES    (1 << 20)

struct fixture {
    char path[64];
    struct batch *batch; /* what is recorded */
    struct pipeline *pipeline;
    uint64_t samples, values; /* that the sink received */
};

static bool accept_all(const struct record_header *header)
{
    (void)header;
    return true;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    snprintf(f->path, sizeof(f->path), "/tmp/sonde-turns-XXXXXX");
    const int fd = mkstemp(f->path);
    *state = f;
    return fd < 0 || close(fd) < 0 ? -1 : batch_new(BATCH_BYTES, accept_all, &f->batch);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    turn_time_end();
    pipeline_free(f->pipeline);
    batch_free(f->batch);
    unlink(f->path);
    free(f);
    return 0;
}

static void record_sample(struct fixture *f, uint64_t time_ns)
{
    const struct stack_record s = {
        .h = {.size_bytes = sizeof(s), .kind = RECORD_CPU_SAMPLE, .time_ns = time_ns, .pid = 7, .tid = 7},
        .sample = {.value = time_ns},
        .user_end = UNWIND_END_NO_USER,
        .comm = "program"};
    assert_int_equal(batch_add(f->batch, &s.h), 0);
}

static void record_wait(struct fixture *f, uint32_t tid, uint64_t time_ns)
{
    const struct off_cpu_wait w = {
        .h = {.size_bytes = sizeof(w), .kind = RECORD_OFF_CPU, .time_ns = time_ns, .pid = 7, .tid = tid},
        .start_ns = time_ns - 100,
        .weight_ns = 100,
        .count = 1,
        .syscall = -1,
        .comm = "program"};
    assert_int_equal(batch_add(f->batch, &w.h), 0);
}

static int take_sample(void *context, const struct sample *sample)
{
    struct fixture *f = context;
    f->samples++;
    f->values += sample->value;
    return 0;
}

static void replay(struct fixture *f)
{
    _cleanup_(record_writer_freep) struct record_writer *writer = NULL;
    struct attach_report report = {0};
    assert_int_equal(record_writer_open(f->path, &writer), 0);
    assert_int_equal(record_writer_add(writer, f->batch), 0);
    struct memory_plan memory = {0};
    for (size_t i = 0; i < MEMORY_PART_COUNT; i++)
        memory.bytes[i] = PART_BYTES;
    const struct pipeline_options options = {.memory = &memory, .replay = f->path, .cache_entries = CACHE_ENTRIES};
    const struct pipeline_sink sink = {.context = f, .sample = take_sample};
    assert_int_equal(pipeline_new(&options, &sink, &report, &f->pipeline), 0);
}

static double unfinished_turns(const struct fixture *f)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    struct losses losses = {0};
    assert_int_equal(metric_set_new(&set), 0);
    pipeline_metrics(f->pipeline, &losses, set);
    for (size_t i = 0; i < metric_set_families(set); i++)
        if (strcmp(metric_set_family(set, i).name, "sonde_self_unfinished_turns") == 0)
            return metric_set_family(set, i).points[0].value;
    return -1;
}

static uint64_t not_resolved(const struct fixture *f)
{
    struct losses losses;
    pipeline_losses(f->pipeline, &losses);
    return losses.count[LOSS_NOT_RESOLVED];
}

static void test_turn_without_limits_takes_all_records(void **state)
{
    struct fixture *f = *state;
    for (uint64_t time_ns = 1000; time_ns < 1004; time_ns++)
        record_sample(f, time_ns);
    replay(f);
    assert_int_equal(pipeline_turn(f->pipeline), 4);
    assert_int_equal(pipeline_turn(f->pipeline), -ENODATA);
    assert_int_equal(f->samples, 4);
    assert_true(unfinished_turns(f) == 0);
    assert_int_equal(pipeline_drop_rest(f->pipeline), 0);
}

/* Records of one time stay together. */
static void test_turns_without_time_take_one_record_each(void **state)
{
    struct fixture *f = *state;
    record_sample(f, 1000);
    record_sample(f, 1001);
    record_sample(f, 1001);
    record_sample(f, 1002);
    replay(f);
    turn_time_begin(0, 0);
    assert_int_equal(pipeline_turn(f->pipeline), 1);
    assert_int_equal(f->samples, 1);
    assert_int_equal(pipeline_turn(f->pipeline), 2);
    assert_int_equal(f->samples, 3);
    assert_int_equal(pipeline_turn(f->pipeline), 1);
    assert_int_equal(pipeline_turn(f->pipeline), -ENODATA);
    assert_int_equal(f->samples, 4);
    assert_int_equal(f->values, 1000 + 1001 + 1001 + 1002);
    assert_true(unfinished_turns(f) == 2);
    assert_int_equal(not_resolved(f), 0);
}

static void test_rest_of_the_records_is_counted(void **state)
{
    struct fixture *f = *state;
    for (uint64_t time_ns = 1000; time_ns < 1004; time_ns++)
        record_sample(f, time_ns);
    replay(f);
    turn_time_begin(0, 0);
    assert_int_equal(pipeline_turn(f->pipeline), 1);
    assert_int_equal(pipeline_drop_rest(f->pipeline), 3);
    assert_int_equal(not_resolved(f), 3);
    assert_int_equal(f->samples, 1);
}

static void test_rest_of_the_waits_is_counted(void **state)
{
    struct fixture *f = *state;
    for (uint32_t tid = 7; tid < 10; tid++)
        record_wait(f, tid, 1000);
    replay(f);
    turn_time_begin(0, 0);
    assert_int_equal(pipeline_turn(f->pipeline), 3);
    assert_int_equal(f->samples, 1); /* the other waits are resolved in later turns */
    assert_int_equal(pipeline_drop_rest(f->pipeline), 2);
    assert_int_equal(not_resolved(f), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_turn_without_limits_takes_all_records, setup, teardown),
        cmocka_unit_test_setup_teardown(test_turns_without_time_take_one_record_each, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rest_of_the_records_is_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rest_of_the_waits_is_counted, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
