/* Series of jobs from the counters of their cgroups, which come and go. */
#include "signals/io/io_series.h"

#include "sources/io/io_counters.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SECOND 1000000000ull

static struct io_series *series;

static int start(void **state)
{
    (void)state;
    return io_series_new(4, SIZE_MAX, &series);
}

static int end(void **state)
{
    (void)state;
    io_series_free(series);
    return 0;
}

static const struct job *job_of(const char *cgroup)
{
    static struct job job;
    job_from_cgroup(cgroup, &job);
    return &job;
}

static void add(const char *cgroup, const char *mountpoint, uint8_t operation, uint64_t bytes, bool is_final)
{
    const struct io_key key = {.operation = operation};
    struct io_counters counters = {.bytes = bytes};
    counters.durations[3] = 1;
    assert_int_equal(io_series_add(series, job_of(cgroup), mountpoint, "ext4", &key, 0, &counters, is_final), 0);
}

struct wanted {
    const char *manager, *job, *mountpoint;
    uint8_t operation;
    int error;
    size_t found;
    uint64_t bytes, operations, errors;
};

static void look(void *context, const struct io_point *p)
{
    struct wanted *w = context;
    if (strcmp(p->job->manager, w->manager) != 0 || strcmp(p->job->id, w->job) != 0 || p->operation != w->operation ||
        strcmp(p->mountpoint, w->mountpoint) != 0 || p->error != w->error)
        return;
    w->found++;
    w->bytes = p->counters.bytes;
    w->operations = p->counters.durations[3];
    w->errors = p->counters.errors;
}

static void expect(const char *manager, const char *job, const char *mountpoint, uint64_t operations, uint64_t bytes)
{
    struct wanted w = {.manager = manager, .job = job, .mountpoint = mountpoint, .operation = IO_READ};
    io_series_each(series, look, &w);
    assert_int_equal(w.found, operations ? 1 : 0);
    assert_int_equal(w.bytes, bytes);
    assert_int_equal(w.operations, operations);
}

static void test_steps_are_folded_in(void **state)
{
    (void)state;
    io_series_begin(series, SECOND);
    add("/slurm/uid_1/job_7/step_0", "/data", IO_READ, 10, false);
    add("/slurm/uid_1/job_7/step_1/task_0", "/data", IO_READ, 5, false);
    add("/slurm/uid_1/job_8/step_0", "/data", IO_READ, 1, false);
    io_series_end(series);
    expect("slurm", "7", "/data", 2, 15);
    expect("slurm", "8", "/data", 1, 1);
    io_series_begin(series, 2 * SECOND); /* each round has all counters anew */
    add("/slurm/uid_1/job_7/step_0", "/data", IO_READ, 30, false);
    io_series_end(series);
    expect("slurm", "7", "/data", 1, 30);
}

static void test_a_step_that_ended_stays_in_its_job(void **state)
{
    (void)state;
    io_series_begin(series, SECOND);
    add("/slurm/uid_1/job_7/step_0", "/data", IO_READ, 10, true);
    add("/slurm/uid_1/job_7/step_1", "/data", IO_READ, 5, false);
    io_series_end(series);
    expect("slurm", "7", "/data", 2, 15);
    io_series_begin(series, 2 * SECOND);
    add("/slurm/uid_1/job_7/step_1", "/data", IO_READ, 6, false);
    io_series_end(series);
    expect("slurm", "7", "/data", 2, 16);
}

static void test_an_ended_job_is_kept_for_a_while(void **state)
{
    (void)state;
    io_series_begin(series, SECOND);
    add("/docker/x", "/data", IO_READ, 10, true);
    io_series_end(series);
    io_series_begin(series, SECOND + IO_KEEP_NS);
    io_series_end(series);
    expect("none", "/docker/x", "/data", 1, 10);
    io_series_begin(series, SECOND + IO_KEEP_NS + 1);
    io_series_end(series);
    expect("none", "/docker/x", "/data", 0, 0);
    assert_int_equal(io_series_count(series), 0);
}

/* Its counters moved to the series because the table was half full, while its cgroup lives on. */
static void test_an_idle_job_is_kept(void **state)
{
    (void)state;
    io_series_begin(series, SECOND);
    add("/system.slice/a.service", "/data", IO_READ, 10, true);
    io_series_end(series);
    io_series_begin(series, SECOND + 2 * IO_KEEP_NS);
    io_series_keep(series, job_of("/system.slice/a.service"));
    io_series_keep(series, job_of("/system.slice/b.service"));
    io_series_end(series);
    expect("systemd", "a.service", "/data", 1, 10);
    assert_int_equal(io_series_count(series), 1);
}

static void test_what_does_not_fit_is_other(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        io_series_begin(series, SECOND);
        for (int i = 0; i < 6; i++) {
            char cgroup[16] = {'/', 'j', (char)('0' + i)};
            add(cgroup, "/data", IO_READ, 10, false);
        }
        io_series_end(series);
        expect("none", "/j3", "/data", 1, 10);
        expect("none", "/j4", "/data", 0, 0);
        expect("other", "other", "unknown", 2, 20);
        assert_int_equal(io_series_folded(series), 2);
    }
}

static void test_errors_are_series_of_their_own(void **state)
{
    const struct io_key key = {.operation = IO_READ};
    struct wanted w = {
        .manager = "systemd", .job = "a.service", .mountpoint = "/", .operation = IO_READ, .error = ENOSPC};
    (void)state;
    io_series_begin(series, SECOND);
    add("/system.slice/a.service", "/", IO_READ, 10, false);
    assert_int_equal(io_series_add(series, job_of("/system.slice/a.service"), "/", "ext4", &key, ENOSPC,
                                   &(const struct io_counters){.errors = 3}, false),
                     0);
    io_series_end(series);
    io_series_each(series, look, &w);
    assert_int_equal(w.errors, 3);
    expect("systemd", "a.service", "/", 1, 10);
}

static uint64_t folded_of_long_names(size_t max_text_bytes)
{
    char mountpoint[701] = {0};
    memset(mountpoint, '/', 700);
    assert_int_equal(io_series_new(100, max_text_bytes, &series), 0);
    io_series_begin(series, SECOND);
    for (char i = '0'; i < '4'; i++) {
        mountpoint[699] = i;
        add("/j", mountpoint, IO_READ, 10, false);
    }
    io_series_end(series);
    return io_series_folded(series);
}

/* Where programs choose long names, fewer series fit a page. */
static void test_text_of_series_is_limited(void **state)
{
    (void)state;
    assert_int_equal(folded_of_long_names(110000), 0);
    io_series_free(series);
    assert_int_equal(folded_of_long_names(80000), 1);
    expect("other", "other", "unknown", 1, 10);
    io_series_begin(series, SECOND + IO_KEEP_NS + 1); /* those make room again */
    io_series_end(series);
    assert_int_equal(io_series_count(series), 1);
    for (char i = '0'; i < '4'; i++)
        add((char[]){'/', i, 0}, "/data", IO_READ, 10, false);
    assert_int_equal(io_series_folded(series), 0);
}

/* The sum over the cgroups of a job stops at the largest number: it does not fall. */
static void test_counters_near_the_largest_number(void **state)
{
    struct io_counters huge;
    const struct io_key key = {.operation = IO_READ};
    struct wanted w = {.manager = "slurm", .job = "7", .mountpoint = "/data", .operation = IO_READ};
    (void)state;
    memset(&huge, 0xff, sizeof(huge));
    io_series_begin(series, SECOND);
    for (int step = 0; step < 3; step++) {
        const bool is_final = step == 0;
        huge.bytes -= 1;
        assert_int_equal(io_series_add(series, job_of("/slurm/uid_1/job_7"), "/data", "ext4", &key, 0, &huge, is_final),
                         0);
        io_series_each(series, look, &w);
        assert_true(w.bytes == (step == 0 ? UINT64_MAX - 1 : UINT64_MAX));
        assert_true(w.operations == UINT64_MAX && w.errors == UINT64_MAX);
    }
    io_series_end(series);
    assert_true(io_counters_operations(&huge) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_steps_are_folded_in, start, end),
        cmocka_unit_test_setup_teardown(test_a_step_that_ended_stays_in_its_job, start, end),
        cmocka_unit_test_setup_teardown(test_an_ended_job_is_kept_for_a_while, start, end),
        cmocka_unit_test_setup_teardown(test_an_idle_job_is_kept, start, end),
        cmocka_unit_test_setup_teardown(test_what_does_not_fit_is_other, start, end),
        cmocka_unit_test_setup_teardown(test_errors_are_series_of_their_own, start, end),
        cmocka_unit_test_teardown(test_text_of_series_is_limited, end),
        cmocka_unit_test_setup_teardown(test_counters_near_the_largest_number, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
