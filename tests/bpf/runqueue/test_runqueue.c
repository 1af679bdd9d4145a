/* Run-queue latency: a thread that is woken behind one of higher priority on the same CPU waits until that one sleeps.
 * Both are real-time threads, so that no other thread comes between them. */
#include "../watch.h"

#include "sources/runqueue/runqueue.h"

#include "probes/runqueue.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

#define HOLD_NS 60000000ull /* below the share of a second that real-time threads may have */
#define ROUNDS  5

static int wake[2];

/* The thread that waits for the CPU. */
static void *wait_often(void *tid)
{
    char byte;
    prctl(PR_SET_NAME, "delayed");
    *(pid_t *)tid = gettid();
    while (read(wake[0], &byte, 1) == 1 && byte)
        ;
    return NULL;
}

/* Wakes the other thread, and keeps the CPU for a while. */
static void *hold_often(void *tid)
{
    const char more = 1, end = 0;
    prctl(PR_SET_NAME, "holder");
    *(pid_t *)tid = gettid();
    for (int i = 0; i < ROUNDS; i++) {
        usleep(20000); /* the other one is blocked again */
        assert_int_equal(write(wake[1], &more, 1), 1);
        for (const uint64_t end_ns = clock_monotonic_ns() + HOLD_NS; clock_monotonic_ns() < end_ns;)
            ;
    }
    assert_int_equal(write(wake[1], &end, 1), 1);
    return NULL;
}

/* Skips the case where threads cannot be real-time. */
static pthread_t start_on(int cpu, int priority, void *(*work)(void *), pid_t *tid)
{
    const struct sched_param parameter = {.sched_priority = priority};
    pthread_attr_t attributes;
    pthread_t thread;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof(cpus), &cpus);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    pthread_attr_setschedparam(&attributes, &parameter);
    if (pthread_create(&thread, &attributes, work, tid) != 0) {
        print_message("no real-time threads here\n");
        skip();
    }
    pthread_attr_destroy(&attributes);
    return thread;
}

struct seen {
    pid_t delayed, holder;
    size_t count;
};

static bool check_delay(const struct record_header *header, void *context)
{
    const struct runqueue_delay *d = (const struct runqueue_delay *)header;
    struct seen *s = context;
    if (header->kind != RECORD_RUNQUEUE_DELAY || header->tid != (uint32_t)s->delayed ||
        d->previous_tid != (uint32_t)s->holder)
        return false;
    assert_int_equal(header->pid, getpid());
    assert_true(d->delay_ns >= HOLD_NS - 20000000);
    assert_string_equal(d->comm, "delayed");
    assert_string_equal(d->previous_comm, "holder");
    s->count++;
    return true;
}

static double counted_delays(const struct watch *w)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    double sum = 0;
    assert_int_equal(metric_set_new(&set), 0);
    w->source->metrics(w->self, set);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family family = metric_set_family(set, i);
        for (size_t p = 0; strcmp(family.name, "sonde_runqueue_delays") == 0 && p < family.point_count; p++)
            sum += family.points[p].value;
    }
    return sum;
}

static void test_each_long_wait_has_a_record(void **state)
{
    const struct runqueue_options runqueue = {.enabled = true, .threshold_ns = 20000000};
    struct watch_options options = watch_defaults;
    struct seen seen = {0};
    (void)state;
    assert_int_equal(pipe(wake), 0);
    options.settings = &runqueue;
    struct watch w = watch_begin(&source_runqueue, &options);
    const int cpu = sched_getcpu();
    const pthread_t delayed = start_on(cpu, 5, wait_often, &seen.delayed);
    const pthread_t holder = start_on(cpu, 10, hold_often, &seen.holder);
    pthread_join(holder, NULL);
    pthread_join(delayed, NULL);
    watch_until(&w, ROUNDS - 1, check_delay, &seen); /* the first may begin while the holder sets itself up */
    assert_true(counted_delays(&w) >= (double)seen.count);
    watch_end(&w);
    close(wake[0]);
    close(wake[1]);
}

/* The budget disables it; nothing is recorded of a time that was not watched. */
static void test_shed_disables_it(void **state)
{
    const struct runqueue_options runqueue = {.enabled = true, .threshold_ns = 1};
    struct watch_options options = watch_defaults;
    struct losses losses = {0};
    (void)state;
    options.settings = &runqueue;
    struct watch w = watch_begin(&source_runqueue, &options);
    assert_true(w.source->is_enabled(w.self));
    assert_int_equal(w.source->shed(w.self, SOURCE_DETAIL_NO_OFF_CPU), 0);
    assert_false(w.source->is_enabled(w.self));
    const double before = counted_delays(&w);
    for (int i = 0; i < 20; i++)
        usleep(1000);
    assert_true(counted_delays(&w) == before);
    w.source->losses(w.self, &losses);
    assert_true(losses.count[LOSS_SHED] > 0);
    assert_int_equal(w.source->shed(w.self, SOURCE_DETAIL_FULL), 0);
    for (int i = 0; i < 20; i++)
        usleep(1000);
    assert_true(counted_delays(&w) > before);
    w.source->free(w.self);
    shared_tables_free(w.tables);
    batch_free(w.batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_long_wait_has_a_record),
        cmocka_unit_test(test_shed_disables_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
