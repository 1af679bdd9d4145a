/* Calls of functions of the test program, which the source takes for those of libcuda: each is counted for its process,
 * and waits last from the entry to the return. */
#include "../uprobes.h"
#include "../watch.h"

#include "signals/cuda_activity.h"
#include "signals/signal.h"
#include "sources/cuda/cuda.h"

#include "probes/cuda.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 4
#define CALLS   1000

/* Each begins with an instruction that the kernel emulates. */
#define LIKE_THE_LIBRARY __attribute__((noinline, patchable_function_entry(1)))

static sem_t begun, go_on;
static bool ends_its_thread;

static LIKE_THE_LIBRARY void launch(void)
{
    __asm__ volatile("");
}

static LIKE_THE_LIBRARY void graph_launch(void)
{
    __asm__ volatile("" ::"r"(1));
}

static LIKE_THE_LIBRARY void copy(void)
{
    __asm__ volatile("" ::"r"(2));
}

static LIKE_THE_LIBRARY void allocate(void)
{
    __asm__ volatile("" ::"r"(3));
}

static LIKE_THE_LIBRARY void synchronize(void)
{
    sem_post(&begun);
    sem_wait(&go_on);
    if (ends_its_thread)
        syscall(SYS_exit, 0); /* pthread_exit would need a library that small systems lack */
}

static void *const functions[CUDA_CALLS] = {launch, graph_launch, copy, allocate, synchronize};

/* Drains until no attachment is waiting. */
static struct uprobe_attachments_stats settle(struct watch *w)
{
    struct uprobe_attachments_stats stats;
    do {
        usleep(1000);
        assert_int_equal(w->source->drain(w->self, w->batch), 0);
        uprobe_attachments_stats(cuda_source_attachments(w->self), &stats);
    } while (stats.waiting);
    return stats;
}

static void attach_all(struct watch *w, struct uprobe_attachment *attachments[CUDA_CALLS])
{
    struct uprobe_attachments *all = cuda_source_attachments(w->self);
    const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    for (uint32_t i = 0; i < CUDA_CALLS; i++) {
        const struct uprobe_site site = {.file_offset = uprobes_file_offset(functions[i]), .kind = i};
        assert_int_equal(uprobe_attachments_add(all, fd, UPROBE_EVERY_PROCESS, &site, 1, &attachments[i]), 0);
    }
    close(fd);
    settle(w);
    for (size_t i = 0; i < CUDA_CALLS; i++)
        assert_true(uprobe_attachment_is_on(attachments[i]));
}

static struct watch begin(void)
{
    struct uprobe_attachment *attachments[CUDA_CALLS];
    const struct watch_options options = watch_defaults;
    struct watch w = watch_begin(&source_cuda, &options);
    assert_int_equal(sem_init(&begun, 0, 0), 0);
    assert_int_equal(sem_init(&go_on, 0, 0), 0);
    ends_its_thread = false;
    attach_all(&w, attachments);
    return w;
}

/* Of this process. */
static struct cuda_process counts(const struct watch *w)
{
    _cleanup_(map_walk_end) struct map_walk walk = cuda_source_processes(w->self);
    struct cuda_process_name name;
    struct cuda_process process, found = {0};
    size_t count = 0;
    while (map_walk_next(&walk, &name, &process))
        if (name.pid == (uint32_t)getpid()) {
            found = process;
            count++;
        }
    assert_true(count <= 1);
    return found;
}

/* Returns how many threads wait, and the begin of the last one that was found. */
static size_t waiting(const struct watch *w, uint64_t *ret_since_ns)
{
    _cleanup_(map_walk_end) struct map_walk walk = cuda_source_waits(w->self);
    struct cuda_wait wait;
    uint32_t tid;
    size_t count = 0;
    while (map_walk_next(&walk, &tid, &wait)) {
        assert_int_equal(wait.process.pid, getpid());
        *ret_since_ns = wait.since_ns;
        count++;
    }
    return count;
}

static void *call_often(void *unused)
{
    for (int i = 0; i < CALLS; i++) {
        launch();
        if (i % 2)
            graph_launch();
        if (i % 4 == 3)
            copy();
        if (i % 8 == 7)
            allocate();
    }
    return unused;
}

static void test_each_call_is_counted_once(void **state)
{
    pthread_t threads[THREADS];
    (void)state;
    struct watch w = begin();
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, NULL), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    const struct cuda_process p = counts(&w);
    for (size_t i = 0; i < CUDA_CALL_SYNCHRONIZE; i++)
        assert_int_equal(p.calls[i], THREADS * CALLS >> i);
    assert_int_equal(p.calls[CUDA_CALL_SYNCHRONIZE], 0);
    cuda_source_forget(w.self, (uint32_t)getpid(), 1); /* of a process that has started before */
    assert_int_equal(counts(&w).calls[CUDA_CALL_LAUNCH], p.calls[CUDA_CALL_LAUNCH]);
    cuda_source_forget(w.self, (uint32_t)getpid(), UINT64_MAX);
    assert_int_equal(counts(&w).calls[CUDA_CALL_LAUNCH], 0);
    watch_end(&w);
}

static void *wait_once(void *unused)
{
    synchronize();
    return unused;
}

/* `exits`: the thread ends inside of the call. */
static void check_wait(bool exits)
{
    struct watch w = begin();
    uint64_t since_ns;
    pthread_t thread;
    ends_its_thread = exits;
    const uint64_t before_ns = clock_monotonic_ns();
    assert_int_equal(pthread_create(&thread, NULL, wait_once, NULL), 0);
    sem_wait(&begun);
    assert_int_equal(waiting(&w, &since_ns), 1);
    assert_in_range(since_ns, before_ns, clock_monotonic_ns());
    assert_int_equal(counts(&w).calls[CUDA_CALL_SYNCHRONIZE], 1);
    assert_int_equal(counts(&w).synchronize_ns, 0);
    usleep(2000);
    const uint64_t until_ns = clock_monotonic_ns();
    sem_post(&go_on);
    pthread_join(thread, NULL);
    while (!counts(&w).synchronize_ns) /* a thread is joined before its exit reaches the tracepoint */
        usleep(1000);
    assert_int_equal(waiting(&w, &since_ns), 0); /* and leaves since_ns */
    assert_in_range(counts(&w).synchronize_ns, until_ns - since_ns, clock_monotonic_ns() - since_ns);
    watch_end(&w);
}

static void test_a_wait_lasts_until_its_return(void **state)
{
    (void)state;
    check_wait(false);
}

static void test_the_exit_of_a_thread_ends_its_wait(void **state)
{
    (void)state;
    check_wait(true);
}

extern const struct signal signal_cuda;

/* Calls once and ends. Returns its PID. */
static uint32_t launch_in_child(void)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        launch();
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    return (uint32_t)child;
}

static size_t counted_processes(const struct watch *w)
{
    _cleanup_(map_walk_end) struct map_walk walk = cuda_source_processes(w->self);
    struct cuda_process_name name;
    size_t count = 0;
    while (map_walk_next(&walk, &name, NULL))
        count++;
    return count;
}

/* The table of processes has a bound, and reports what it drops as exited. */
static void test_counts_stay_as_long_as_the_process_runs(void **state)
{
    static struct cuda_activity activity;
    const struct signal_services services = {.filter = &watch_defaults.filter, .cuda_activity = &activity};
    const struct mapped_processes mapped = {0};
    void *self;
    (void)state;
    struct watch w = begin();
    assert_int_equal(signal_cuda.create(&services, signal_cuda.defaults, w.self, &self), 0);
    launch();
    signal_cuda.exited(self, (uint32_t)getpid(), 0);
    assert_int_equal(counts(&w).calls[CUDA_CALL_LAUNCH], 1);
    signal_cuda.exited(self, launch_in_child(), 0);
    assert_int_equal(counted_processes(&w), 1);
    (void)launch_in_child(); /* the table had dropped it before it ended */
    assert_int_equal(counted_processes(&w), 2);
    for (int i = 0; i < 2; i++) {
        activity.read_ns = 0;
        signal_cuda.turn(self, &mapped);
    }
    assert_int_equal(counted_processes(&w), 1);
    assert_int_equal(counts(&w).calls[CUDA_CALL_LAUNCH], 1);
    signal_cuda.destroy(self);
    watch_end(&w);
}

/* Processes that do not fit the table are counted as lost, and a reset makes room. */
static void test_calls_of_further_processes_are_lost(void **state)
{
    enum { MORE = 5 };
    (void)state;
    struct watch w = begin();
    launch();
    for (int i = 1; i < CUDA_MAX_PROCESSES + MORE; i++)
        (void)launch_in_child();
    assert_int_equal(watch_losses(&w).count[LOSS_MAP_FULL], MORE);
    assert_int_equal(counts(&w).calls[CUDA_CALL_LAUNCH], 1);
    cuda_source_reset(w.self);
    assert_int_equal(cuda_source_resets(w.self), 1);
    launch();
    assert_int_equal(counts(&w).calls[CUDA_CALL_LAUNCH], 1);
    assert_int_equal(watch_losses(&w).count[LOSS_MAP_FULL], MORE);
    watch_end_despite(&w, 1u << LOSS_MAP_FULL);
}

static void test_refused_attachments_count_while_they_are_wanted(void **state)
{
    const struct uprobe_site site = {.kind = CUDA_CALL_LAUNCH};
    struct uprobe_attachment *refused;
    (void)state;
    struct watch w = begin();
    struct uprobe_attachments *all = cuda_source_attachments(w.self);
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC); /* no regular file */
    assert_int_equal(uprobe_attachments_add(all, fd, UPROBE_EVERY_PROCESS, &site, 1, &refused), 0);
    close(fd);
    assert_int_equal(settle(&w).refused, 1);
    assert_false(uprobe_attachment_is_on(refused));
    uprobe_attachments_remove(all, refused);
    assert_int_equal(settle(&w).refused, 0);
    watch_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_call_is_counted_once),
        cmocka_unit_test(test_a_wait_lasts_until_its_return),
        cmocka_unit_test(test_the_exit_of_a_thread_ends_its_wait),
        cmocka_unit_test(test_counts_stay_as_long_as_the_process_runs),
        cmocka_unit_test(test_calls_of_further_processes_are_lost),
        cmocka_unit_test(test_refused_attachments_count_while_they_are_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
