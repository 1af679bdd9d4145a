/* Links of threads to traced requests, from libsonde's probes to the samples: the request's ids from enter to leave,
 * the outer request's again after an inner one, none otherwise. Entries are removed when a thread exits or calls
 * exec(), or when its process unmaps the probes. */
#include "links.h"
#include "watch.h"
#include "workload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <bpf/bpf.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* ---- samples ---- */

#define ROUNDS 10
#define PHASES 4
#define CALLS  10 /* per phase, each triggers one sample */

/* When each phase of a worker's rounds began and ended, and its request at that time. */
struct span {
    uint64_t start_ns, end_ns;
    const struct link_ids *ids;
    size_t seen;
};

struct worker {
    pthread_t thread;
    atomic_bool stop;
    _Atomic pid_t tid;
    int go[2], done[2]; /* one byte each: start; finished */
    void (*act)(struct worker *);
    struct span spans[ROUNDS * PHASES];
    size_t span_count;
};

static void call_often(struct worker *w)
{
    (void)w;
    workload_call(CALLS);
}

/* Blocks until the main thread has seen it blocked and continues it. */
static void block_once(struct worker *w)
{
    char byte;
    assert_int_equal(read(w->go[0], &byte, 1), 1);
}

static void take_span(struct worker *w, const struct link_ids *ids)
{
    struct span *s = &w->spans[w->span_count++];
    s->ids = ids;
    s->start_ns = clock_monotonic_ns();
    w->act(w);
    s->end_ns = clock_monotonic_ns();
}

static void *work(void *argument)
{
    struct worker *w = argument;
    w->tid = links_thread();
    for (int round = 0; round < ROUNDS; round++) {
        links_enter(&links_outer);
        take_span(w, &links_outer);
        links_enter(&links_inner);
        take_span(w, &links_inner);
        links_leave(&links_outer);
        take_span(w, &links_outer);
        links_leave(&links_none);
        take_span(w, &links_none);
    }
    return NULL;
}

static struct link_ids ids_of(const struct stack_record *s)
{
    struct link_ids ids = links_none;
    if (s->flags & STACK_RECORD_LINKED)
        memcpy(&ids, (const char *)s + s->h.size_bytes - sizeof(ids), sizeof(ids));
    return ids;
}

/* A sample, or the stack of a wait, within a span has the span's ids. */
static bool check_in_spans(const struct record_header *header, void *context)
{
    const struct link_ids ids = ids_of((const struct stack_record *)header);
    struct worker *w = context;
    if ((header->kind != RECORD_CPU_SAMPLE && header->kind != RECORD_OFF_CPU_STACK) || header->tid != (uint32_t)w->tid)
        return false;
    for (size_t i = 0; i < w->span_count; i++) {
        struct span *s = &w->spans[i];
        if (header->time_ns < s->start_ns || header->time_ns > s->end_ns)
            continue;
        assert_memory_equal(&ids, s->ids, sizeof(ids));
        s->seen++;
        return true;
    }
    return false; /* of a wait: between two spans either may hold */
}

static void wait_until_forgotten(const struct links *l, pid_t tid)
{
    for (int i = 0; i < 1000 && links_know(l, tid);
         i++) /* pthread_join() returns before the kernel has finished with the thread */
        usleep(10000);
    assert_false(links_know(l, tid));
}

static void test_samples_carry_the_request_of_their_thread(void **state)
{
    (void)state;
    struct links l = links_begin();
    struct worker worker = {.act = call_often};
    struct watch w = workload_watch(l.options, WORKLOAD_CALL_EVENT);
    assert_int_equal(pthread_create(&worker.thread, NULL, work, &worker), 0);
    pthread_join(worker.thread, NULL);
    workload_expect(&w, ROUNDS * PHASES * CALLS, check_in_spans, &worker);
    for (size_t i = 0; i < ROUNDS * PHASES; i++)
        assert_in_range(worker.spans[i].seen, 1, CALLS);
    wait_until_forgotten(&l, worker.tid);
    workload_unwatch(&w);
    links_end(&l);
}

static void test_off_cpu_stacks_carry_the_request_of_their_thread(void **state)
{
    (void)state;
    struct links l = links_begin();
    struct watch_options options = l.options;
    struct worker worker = {.act = block_once};
    size_t stacks = 0;
    assert_int_equal(pipe(worker.go), 0);
    struct watch w = watch_begin(&source_off_cpu, &options);
    assert_int_equal(pthread_create(&worker.thread, NULL, work, &worker), 0);
    while (!worker.tid)
        usleep(1000);
    for (size_t i = 0; i < ROUNDS * PHASES; i++) {
        threads_await_blocked(worker.tid, SYS_read);
        assert_int_equal(write(worker.go[1], "", 1), 1); /* runnable when this returns */
    }
    pthread_join(worker.thread, NULL);
    assert_int_equal(w.source->stop(w.self), 0);
    watch_until(&w, ROUNDS * PHASES, check_in_spans, &worker);
    for (size_t i = 0; i < ROUNDS * PHASES; i++)
        stacks += worker.spans[i].seen > 0;
    assert_int_equal(stacks, ROUNDS * PHASES);
    close(worker.go[0]);
    close(worker.go[1]);
    wait_until_forgotten(&l, worker.tid);
    watch_end(&w);
    links_end(&l);
}

static void *enter_and_call(void *argument)
{
    struct worker *w = argument;
    char byte;
    links_enter(&links_outer);
    w->tid = links_thread();
    while (read(w->go[0], &byte, 1) == 1 && byte == 'g') {
        workload_call(CALLS);
        if (write(w->done[1], "", 1) != 1)
            break;
    }
    links_leave(&links_none);
    return NULL;
}

struct linked {
    pid_t tid;
    size_t count;
};

static bool count_linked(const struct record_header *header, void *context)
{
    struct linked *linked = context;
    if (header->tid != (uint32_t)linked->tid)
        return false;
    linked->count += (((const struct stack_record *)header)->flags & STACK_RECORD_LINKED) != 0;
    return true;
}

/* An entry that was read while being written is inconsistent and is ignored. */
static void test_torn_table_entry_is_ignored(void **state)
{
    (void)state;
    struct links l = links_begin();
    struct worker worker = {0};
    char byte;
    assert_int_equal(pipe(worker.go) | pipe(worker.done), 0);
    assert_int_equal(pthread_create(&worker.thread, NULL, enter_and_call, &worker), 0);
    while (!worker.tid)
        usleep(1000);
    struct watch w = workload_watch(l.options, WORKLOAD_CALL_EVENT);
    for (int torn = 1; torn >= 0; torn--) {
        const uint32_t key = (uint32_t)worker.tid;
        struct thread_link entry = links_entry(&l, key);
        struct linked linked = {.tid = worker.tid};
        entry.ids.trace_id_low ^= 1;
        assert_int_equal(bpf_map_update_elem(shared_tables_links_fd(l.tables), &key, &entry, BPF_EXIST), 0);
        assert_int_equal(w.source->start(w.self), 0);
        assert_int_equal(write(worker.go[1], "g", 1), 1);
        assert_int_equal(read(worker.done[0], &byte, 1), 1);
        workload_expect(&w, CALLS, count_linked, &linked);
        assert_true(torn ? linked.count == 0 : linked.count > 0);
    }
    assert_int_equal(write(worker.go[1], "e", 1), 1);
    pthread_join(worker.thread, NULL);
    for (int i = 0; i < 2; i++) {
        close(worker.go[i]);
        close(worker.done[i]);
    }
    workload_unwatch(&w);
    links_end(&l);
}

/* ---- ends ---- */

static void *end_within(void *argument)
{
    links_enter(&links_outer);
    assert_true(links_know(argument, links_thread()));
    return (void *)(intptr_t)links_thread();
}

static void test_thread_exit_removes_its_entry(void **state)
{
    (void)state;
    struct links l = links_begin();
    for (int i = 0; i < 100; i++) {
        pthread_t thread;
        void *tid;
        assert_int_equal(pthread_create(&thread, NULL, end_within, &l), 0);
        pthread_join(thread, &tid);
        for (int wait = 0; wait < 1000 && links_know(&l, (pid_t)(intptr_t)tid); wait++)
            usleep(10000); /* pthread_join() does not wait for the kernel's part of the exit */
        assert_false(links_know(&l, (pid_t)(intptr_t)tid));
    }
    links_end(&l);
}

/* The child enters, reports that, and calls exec() on request. */
static void test_exec_removes_the_entry(void **state)
{
    (void)state;
    struct links l = links_begin();
    int to_child[2], to_us[2];
    char byte = 0;
    assert_int_equal(pipe(to_child) | pipe(to_us), 0);
    pid_t child = fork();
    if (child == 0) {
        links_enter(&links_outer);
        char out[12], in[12];
        snprintf(out, sizeof(out), "%d", to_us[1]);
        snprintf(in, sizeof(in), "%d", to_child[0]);
        if (write(to_us[1], "a", 1) == 1 && read(to_child[0], &byte, 1) == 1)
            execl("/proc/self/exe", "test-link", "again", out, in, NULL);
        _exit(1);
    }
    assert_int_equal(read(to_us[0], &byte, 1), 1);
    assert_true(links_know(&l, child)); /* it has our provider, and the attachment to the file covers it */
    assert_int_equal(write(to_child[1], "b", 1), 1);
    assert_int_equal(read(to_us[0], &byte, 1), 1);
    assert_int_equal(byte, 'c');
    assert_false(links_know(&l, child));
    assert_int_equal(write(to_child[1], "d", 1), 1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    for (int i = 0; i < 2; i++) {
        close(to_child[i]);
        close(to_us[i]);
    }
    links_end(&l);
}

static int run_again(char **argv)
{
    char byte;
    return write(atoi(argv[2]), "c", 1) == 1 && read(atoi(argv[3]), &byte, 1) == 1 ? 0 : 1;
}

/* A child that has entered, until end_child(). */
static pid_t start_child(void)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        links_enter(&links_outer);
        while (write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void end_child(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void *enter_and_leave(void *argument)
{
    struct worker *w = argument;
    links_enter(&links_outer);
    links_leave(&links_none);
    w->tid = links_thread();
    while (!w->stop)
        usleep(1000);
    return NULL;
}

/* When a process unmaps the probes, its threads that work for a request are removed, and no others. */
static void test_unmapping_removes_the_entries_of_one_process(void **state)
{
    (void)state;
    struct links l = links_begin();
    struct worker idle = {0};
    const pid_t one = start_child(), other = start_child();
    links_enter(&links_outer);
    assert_int_equal(pthread_create(&idle.thread, NULL, enter_and_leave, &idle), 0);
    while (!idle.tid)
        usleep(1000);
    link_source_forget(l.source, (uint32_t)one);
    assert_false(links_know(&l, one));
    assert_true(links_know(&l, other) && links_know(&l, getpid()));
    link_source_forget(l.source, (uint32_t)getpid());
    assert_true(links_know(&l, other));
    assert_false(links_know(&l, getpid()));
    link_source_forget(l.source, 1u << 23); /* no process has this number */
    links_leave(&links_outer);
    assert_false(links_know(&l, getpid())); /* a thread becomes known only when it enters */
    links_enter(&links_outer);
    assert_true(links_know(&l, getpid()));
    idle.stop = true;
    pthread_join(idle.thread, NULL);
    end_child(one);
    end_child(other);
    links_end_with(&l, &(struct losses){.count[LOSS_LINK_FORGOTTEN] = 2}); /* `idle` worked for no request */
}

/* The table is filled with entries of threads that do not exist; one more is counted as lost, and is recorded again
 * once there is space. */
static void test_full_table_is_counted_as_loss(void **state)
{
    (void)state;
    struct links l = links_begin();
    struct losses losses = {0};
    const struct thread_link unused = {0};
    const uint32_t first = 1 << 23; /* beyond all thread ids */
    uint32_t filled = 0;
    for (uint32_t tid = first; bpf_map_update_elem(shared_tables_links_fd(l.tables), &tid, &unused, BPF_ANY) == 0;
         tid++)
        filled++;
    assert_int_equal(filled, LINK_THREADS_MAX);
    links_enter(&links_outer);
    assert_false(links_know(&l, links_thread()));
    links_leave(&links_none);
    source_link.losses(l.source, &losses);
    assert_int_equal(losses.count[LOSS_MAP_FULL], 1);
    assert_int_equal(bpf_map_delete_elem(shared_tables_links_fd(l.tables), &first), 0);
    links_enter(&links_outer);
    assert_true(links_know(&l, links_thread()));
    link_source_detach(l.source, l.attachment);
    source_link.free(l.source);
    shared_tables_free(l.tables);
    sonde_provider_free(links_provider);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_carry_the_request_of_their_thread),
        cmocka_unit_test(test_off_cpu_stacks_carry_the_request_of_their_thread),
        cmocka_unit_test(test_torn_table_entry_is_ignored),
        cmocka_unit_test(test_thread_exit_removes_its_entry),
        cmocka_unit_test(test_exec_removes_the_entry),
        cmocka_unit_test(test_unmapping_removes_the_entries_of_one_process),
        cmocka_unit_test(test_full_table_is_counted_as_loss),
    };
    if (argc > 3 && strcmp(argv[1], "again") == 0)
        return run_again(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
