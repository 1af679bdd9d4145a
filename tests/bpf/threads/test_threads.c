/* The threads of one process are read on request: those that sleep with their stacks and for how long they have slept,
 * those that run without. */
#include "../watch.h"

#include "sources/threads/threads.h"

#include "probes/threads.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define SLEEP_NS    400000000
#define SLEEPERS    3
#define THREADS_MAX 16

static atomic_uint runs;

static void *sleep_forever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static void *run_forever(void *unused)
{
    for (;;)
        atomic_fetch_add(&runs, 1);
    return unused;
}

static void start_threads(int ready)
{
    pthread_t thread;
    for (int i = 1; i < SLEEPERS; i++)
        assert_int_equal(pthread_create(&thread, NULL, sleep_forever, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, run_forever, NULL), 0);
    (void)!write(ready, "", 1);
    for (;;)
        pause();
}

struct found {
    struct thread_record threads[THREADS_MAX];
    size_t count, stacks, stack_bytes;
    uint32_t pid, end_pid;
};

static bool keep_record(const struct record_header *header, void *context)
{
    struct found *f = context;
    if (header->kind == RECORD_THREADS_END) {
        f->end_pid = header->pid;
        return true;
    }
    assert_int_equal(header->pid, f->pid);
    if (header->kind == RECORD_THREAD) {
        assert_true(f->count < THREADS_MAX);
        f->threads[f->count++] = *(const struct thread_record *)header;
    } else {
        const struct stack_record *s = (const struct stack_record *)header;
        assert_int_equal(header->kind, RECORD_THREAD_STACK);
        assert_true(s->kernel_frames > 0 && s->user_frames == 1 && s->stack_bytes > 0);
        f->stacks++;
    }
    return false;
}

static void sleep_ns(long ns)
{
    nanosleep(&(const struct timespec){.tv_nsec = ns}, NULL);
}

static struct watch begin_or_skip(void)
{
    struct attach_report report = {0};
    struct shared_tables *tables = watch_tables(&watch_defaults, false);
    const struct source_services services = watch_services(&watch_defaults, tables);
    void *self = NULL;
    const int r = source_threads.open(&services, NULL, &report, &self);
    if (r == 0)
        source_threads.free(self);
    shared_tables_free(tables);
    if (r < 0) {
        assert_non_null(strstr(report.entries[0].limitation, "needs Linux 5.18"));
        skip();
    }
    return watch_begin(&source_threads, &watch_defaults);
}

static void test_threads_are_read_with_their_stacks_and_waits(void **state)
{
    const uint64_t before_ns = clock_monotonic_ns();
    struct watch w = begin_or_skip();
    struct found f = {.pid = (uint32_t)watch_child(start_threads)};
    (void)state;
    sleep_ns(SLEEP_NS);
    assert_int_equal(threads_source_read(w.self, f.pid), 0);
    assert_int_equal(threads_source_read(w.self, f.pid), -EBUSY);
    watch_until(&w, 1, keep_record, &f);
    assert_int_equal(f.end_pid, f.pid);
    assert_int_equal(f.count, SLEEPERS + 1);
    size_t sleeping = 0;
    for (size_t i = 0; i < f.count; i++) {
        const struct thread_record *t = &f.threads[i];
        assert_true(t->thread_pointer);
        if (!(t->flags & THREAD_WAITING)) {
            assert_int_equal(t->waited_ns, 0);
            continue;
        }
        sleeping++;
        assert_int_equal(t->flags, THREAD_STACK | THREAD_WAITING);
        assert_true(t->switches > 0);
        if (t->waited_ns) /* 0: the kernel does not have it */
            assert_in_range(t->waited_ns, SLEEP_NS / 10 * 9, t->h.time_ns - before_ns);
    }
    assert_int_equal(sleeping, SLEEPERS);
    assert_in_range(f.stacks, SLEEPERS, SLEEPERS + 1); /* the thread that runs may have had to leave its CPU */

    f = (struct found){.pid = f.pid}; /* again, and of a process that does not exist */
    assert_int_equal(threads_source_read(w.self, f.pid), 0);
    watch_until(&w, 1, keep_record, &f);
    assert_int_equal(f.count, SLEEPERS + 1);
    f = (struct found){.pid = f.pid};
    assert_int_equal(threads_source_read(w.self, 4194304), 0);
    watch_until(&w, 1, keep_record, &f);
    assert_int_equal(f.end_pid, 4194304);
    assert_int_equal(f.count, 0);
    watch_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_are_read_with_their_stacks_and_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
