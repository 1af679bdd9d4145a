/* Off-CPU time from the kernel to the batch: children wait in known ways, and each wait must be recorded with its
 * length, system call, reason, stack and waker. The kernel's own count of a thread's switches is the number of its
 * waits. Each of them is recorded, counted as short, or counted as left out by random sampling: exactly. */
#include "rows.h"
#include "watch.h"
#include "workload.h"

#include "probes/common/sampling.h"
#include "probes/offcpu.h"
#include "sources/attach/preempt_count.h"
#include "sources/offcpu/offcpu.h"
#include "sources/tables/unwind_tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define NAP_NS  5000000
#define NAPS    20
#define SEED    0x5eed
#define HOLD_NS 2000000

enum kind { PIPES, SHARES_A_CPU, LIVES_SHORTLY };

static void nap(void)
{
    const struct timespec time = {0, NAP_NS};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

/* Two processes on one CPU that never block, from when the second one writes to `ready`. */
static void share_a_cpu(int ready)
{
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    sched_setaffinity(0, sizeof(first), &first);
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)!write(ready, "", 1);
    }
    for (volatile uint64_t x = 0;; x++)
        ;
}

/* Naps, and wakes its child by a pipe after each nap. */
static void wake_by_pipe(int ready)
{
    int ends[2];
    if (pipe(ends) == 0 && fork() == 0) {
        char byte;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)!write(ready, "", 1);
        while (read(ends[0], &byte, 1) == 1)
            ;
        _exit(1);
    }
    do
        nap();
    while (write(ends[1], "", 1) == 1);
}

static void run_briefly(int ready)
{
    (void)!write(ready, "", 1);
    for (;;) {
        nap();
        pid_t short_lived = fork();
        if (short_lived == 0)
            _exit(0);
        waitpid(short_lived, NULL, 0);
    }
}

static pid_t child(enum kind kind)
{
    return watch_child(kind == PIPES ? wake_by_pipe : kind == SHARES_A_CPU ? share_a_cpu : run_briefly);
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

struct expectation {
    pid_t pid;
    uint64_t begin_ns;
    uint64_t stack_ns; /* of the last stack */
    size_t stacks, waits;
    size_t naps; /* waits in one of the two places where a workload naps */
    uint64_t told_ns, weight_ns, of_ns;
    int syscall;               /* of the waits with that stack; 0: none yet */
    struct stack_record *last; /* that stack */
};

static struct watch watch(pid_t pid, struct watch_options options, struct expectation *ret)
{
    *ret = (struct expectation){.pid = pid};
    options.filter.pids[0] = (uint32_t)pid;
    options.filter.pid_count = 1;
    struct watch w = watch_begin(&source_off_cpu, &options);
    ret->begin_ns = clock_monotonic_ns();
    return w;
}

/* Records a workload while it naps, from when it is blocked until it is blocked again. `with_rows`: its stacks are
 * complete, so they can be compared. `check` returns true for each wait. The number of waits, including those only
 * counted, equals the kernel's count of switches: the first one was in progress when the recording began, the last one
 * when it ended. */
static struct off_cpu_totals record_naps(struct watch_options options, bool two_places, bool with_rows,
                                         bool (*check)(const struct record_header *, void *), struct expectation *e)
{
    struct workload child = workload_start(NULL, NULL);
    struct watch w = watch(child.pid, options, e);
    if (with_rows)
        assert_true(unwind_load_process(watch_unwind_tables(&w), child.pid) > 0);
    const uint64_t switches = threads_switches(child.pid);
    workload_begin(&child, two_places ? workload_nap_in_two_places : workload_nap, NAPS);
    if (two_places)
        workload_interrupt_in_two_places(&child, NAPS);
    else
        workload_interrupt(&child, NAPS, HOLD_NS);
    workload_await(&child);
    const uint64_t waits = 1 + threads_switches(child.pid) - switches;
    assert_int_equal(w.source->stop(w.self), 0);
    const struct off_cpu_totals stats = off_cpu_source_stats(w.self);
    assert_int_equal(stats.recorded + stats.left_out + stats.short_count, waits);
    workload_expect(&w, stats.recorded, check, e);
    workload_end(&child);
    free(e->last);
    watch_end(&w);
    return stats;
}

static void check_wait(const struct record_header *header, const struct off_cpu_wait *wait)
{
    assert_int_equal(header->kind, RECORD_OFF_CPU);
    assert_int_equal(header->size_bytes, sizeof(*wait));
    assert_true(wait->start_ns < header->time_ns);
    assert_int_equal(wait->weight_ns, header->time_ns - wait->start_ns);
    assert_int_equal(wait->count, 1);
    assert_true(wait->queued_ns <= wait->weight_ns);
    assert_true(header->time_ns <= clock_monotonic_ns());
    assert_true(wait->cgroup_id > 0);
}

static bool check_naps(const struct record_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    struct expectation *e = context;
    assert_int_equal(header->pid, e->pid);
    assert_int_equal(header->tid, e->pid);
    if (header->kind == RECORD_OFF_CPU_STACK) {
        const struct stack_record *s = (const struct stack_record *)header;
        assert_true(s->kernel_frames > 0);
        e->stacks++;
        e->stack_ns = header->time_ns;
        return false;
    }
    check_wait(header, wait);
    e->told_ns += wait->weight_ns;
    if (wait->flags || wait->syscall != SYS_clock_nanosleep)
        return true; /* the end of a time slice, an untraced switch, or a wait for the next request */
    assert_int_equal(wait->stack_ns, e->stack_ns);
    assert_int_equal(wait->object, OFF_CPU_OBJECT_NONE);
    assert_int_equal(wait->state, 0);
    assert_true(wait->weight_ns - wait->queued_ns >= HOLD_NS);
    e->naps++;
    return true;
}

/* Every wait is recorded once. */
static void test_each_nap_is_recorded_once(void **state)
{
    (void)state;
    struct expectation e;
    const struct off_cpu_totals stats = record_naps(watch_defaults, false, false, check_naps, &e);
    assert_int_equal(stats.left_out + stats.short_count, 0);
    assert_int_equal(stats.recorded_ns, e.told_ns);
    assert_in_range(e.naps, 1, NAPS);
    assert_true(e.stacks > 0);
}

/* Ignores the time, the only difference between two records of one stack. */
static bool is_same_stack(const struct stack_record *a, const struct stack_record *b)
{
    return a->h.size_bytes == b->h.size_bytes && a->user_end == UNWIND_END_ENTRY && b->user_end == UNWIND_END_ENTRY &&
           a->kernel_frames == b->kernel_frames && memcmp(a->data, b->data, a->h.size_bytes - sizeof(*a)) == 0;
}

static bool check_stacks(const struct record_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    const struct stack_record *s = (const struct stack_record *)header;
    struct expectation *e = context;
    if (header->kind == RECORD_OFF_CPU_STACK) {
        assert_false(e->last && is_same_stack(e->last, s));
        e->last = realloc(e->last, header->size_bytes);
        assert_non_null(e->last);
        memcpy(e->last, s, header->size_bytes);
        e->stacks += s->user_end == UNWIND_END_ENTRY;
        e->stack_ns = header->time_ns;
        e->syscall = 0;
        return false;
    }
    check_wait(header, wait);
    e->naps += !wait->flags && (wait->syscall == SYS_clock_nanosleep || wait->syscall == SYS_ppoll);
    if (wait->flags)
        return true;
    assert_int_equal(wait->stack_ns, e->stack_ns);
    if (e->syscall)
        assert_int_equal(wait->syscall, e->syscall);
    e->syscall = wait->syscall;
    return true;
}

/* A stack is recorded only when it differs from the thread's previous one. */
static void test_stack_is_recorded_only_when_it_changes(void **state)
{
    (void)state;
    struct expectation e;
    record_naps(watch_defaults, false, true, check_stacks, &e);
    print_message("%zu stacks of %zu naps\n", e.stacks, e.naps);
    assert_true(e.stacks > 0);
}

/* No wait is attributed to the place of the wait before it. */
static void test_stack_is_not_reused_for_another_place(void **state)
{
    (void)state;
    struct expectation e;
    record_naps(watch_defaults, true, true, check_stacks, &e);
    assert_true(e.stacks >= 2);
}

static bool check_pipes(const struct record_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    struct expectation *e = context;
    if (header->kind == RECORD_OFF_CPU_STACK || (pid_t)header->pid == e->pid || wait->flags & OFF_CPU_PREEMPTED)
        return false;
    check_wait(header, wait);
    if (wait->syscall != SYS_read)
        return false;
    assert_int_equal(wait->object, OFF_CPU_OBJECT_PIPE);
    return true;
}

/* In a child of the selected process that existed already. */
static void test_pipe_waits_of_a_child_are_recorded(void **state)
{
    (void)state;
    struct expectation e;
    struct watch w = watch(child(PIPES), watch_defaults, &e);
    watch_until(&w, ENOUGH, check_pipes, &e);
    end(e.pid);
    watch_end(&w);
}

static bool check_queue(const struct record_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    (void)context;
    if (header->kind == RECORD_OFF_CPU_STACK)
        return false;
    check_wait(header, wait);
    if (!(wait->flags & OFF_CPU_PREEMPTED))
        return false;
    assert_int_equal(wait->queued_ns, header->time_ns - wait->start_ns);
    assert_int_equal(wait->syscall, -1);
    return true;
}

static void test_run_queue_time_is_recorded(void **state)
{
    (void)state;
    struct expectation e;
    struct watch w = watch(child(SHARES_A_CPU), watch_defaults, &e);
    watch_until(&w, ENOUGH, check_queue, &e);
    end(e.pid);
    watch_end(&w);
}

static bool check_births(const struct record_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    struct expectation *e = context;
    if (header->kind != RECORD_OFF_CPU || (pid_t)header->pid == e->pid || wait->stack_ns)
        return false;
    check_wait(header, wait);
    assert_int_equal(wait->queued_ns, header->time_ns - wait->start_ns);
    return true;
}

/* A new thread waits for its first CPU. */
static void test_run_queue_time_of_a_new_thread_is_recorded(void **state)
{
    (void)state;
    struct expectation e;
    struct watch w = watch(child(LIVES_SHORTLY), watch_defaults, &e);
    watch_until(&w, ENOUGH, check_births, &e);
    end(e.pid);
    watch_end(&w);
}

/* Shorter waits are counted, and none is recorded. */
static void test_waits_below_the_minimum_are_only_counted(void **state)
{
    (void)state;
    struct expectation e;
    struct watch_options options = watch_defaults;
    options.off_cpu.min_wait_ns = 3600000000000;
    const struct off_cpu_totals stats = record_naps(options, false, false, check_naps, &e);
    assert_int_equal(stats.recorded + stats.left_out, 0);
    assert_true(stats.short_ns >= NAPS * HOLD_NS);
}

struct waker_expectation {
    struct expectation e;
    struct {
        pid_t waiter;
        uint32_t tid;
        uint64_t time_ns;
        size_t kernel_frames, user_frames;
    } last[2]; /* wakers of the child and of its own child */
    size_t by_thread, by_interrupt;
    bool known; /* whether this kernel distinguishes interrupts from threads */
};

static void note_waker(struct waker_expectation *x, const struct stack_record *s)
{
    const pid_t waiter = (pid_t)s->woken.pid;
    const size_t i = waiter != x->e.pid;
    assert_int_equal(s->woken.tid, waiter); /* their only threads */
    assert_true(s->h.time_ns > x->last[i].time_ns);
    x->last[i].waiter = waiter;
    x->last[i].tid = s->h.tid;
    x->last[i].time_ns = s->h.time_ns;
    x->last[i].kernel_frames = s->kernel_frames;
    x->last[i].user_frames = s->user_frames;
}

/* The child naps and is woken by a timer; then it wakes its own child. */
static bool check_wakers(const struct record_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    struct waker_expectation *x = context;
    if (header->kind == RECORD_OFF_CPU_WAKER)
        note_waker(x, (const struct stack_record *)header);
    if (header->kind != RECORD_OFF_CPU)
        return false;
    check_wait(header, wait);
    const size_t i = (pid_t)header->pid != x->e.pid;
    if (wait->flags & OFF_CPU_PREEMPTED)
        assert_int_equal(wait->waker, OFF_CPU_WAKER_NONE);
    if (wait->flags || wait->waker == OFF_CPU_WAKER_UNSEEN) /* some kernels do not trace everything: see offcpu.bpf.c */
        return false;
    assert_int_not_equal(wait->waker, OFF_CPU_WAKER_NONE);
    assert_int_equal(header->pid, x->last[i].waiter);
    assert_int_equal(wait->waker_ns, (uint32_t)x->last[i].time_ns);
    assert_true(x->last[i].kernel_frames > 0 && x->last[i].time_ns < header->time_ns);
    if (wait->syscall == SYS_clock_nanosleep && i == 0) {
        if (wait->waker == OFF_CPU_WAKER_INTERRUPT)
            assert_true(x->last[i].tid == 0 && x->last[i].user_frames == 0);
        else
            assert_false(x->known);
        x->by_interrupt++;
    } else if (wait->syscall == SYS_read && i == 1) {
        assert_int_equal(wait->waker, x->known ? OFF_CPU_WAKER_THREAD : OFF_CPU_WAKER_UNKNOWN);
        assert_int_equal(x->last[i].tid, x->e.pid);
        assert_true(x->last[i].user_frames > 0);
        x->by_thread++;
    }
    return x->by_thread && x->by_interrupt;
}

static void test_waker_is_recorded(void **state)
{
    (void)state;
    struct waker_expectation x = {.known = preempt_count_find().distance != 0};
    struct watch_options options = watch_defaults;
    options.off_cpu.wakers = true;
    print_message("interrupts are recognised %s\n", x.known ? "by the kernel's count" : "by names");
    struct watch w = watch(child(PIPES), options, &x.e);
    watch_until(&w, 1, check_wakers, &x);
    end(x.e.pid);
    watch_end(&w);
}

static bool find_wakers(const struct record_header *header, void *context)
{
    (void)context;
    assert_int_not_equal(header->kind, RECORD_OFF_CPU_WAKER);
    if (header->kind == RECORD_OFF_CPU)
        assert_int_equal(((const struct off_cpu_wait *)header)->waker, OFF_CPU_WAKER_NONE);
    return header->kind == RECORD_OFF_CPU;
}

static void test_wakers_are_recorded_only_on_request(void **state)
{
    (void)state;
    struct expectation e;
    struct watch w = watch(child(PIPES), watch_defaults, &e);
    watch_until(&w, ENOUGH, find_wakers, &e);
    end(e.pid);
    watch_end(&w);
}

#define STANDS_FOR_NS (8ULL * HOLD_NS)

/* Which waits are recorded, and their weight, follows from the seed, the start time and the length. */
static bool check_sampled(const struct record_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    struct expectation *e = context;
    if (header->kind == RECORD_OFF_CPU_STACK)
        return false;
    const uint64_t length_ns = header->time_ns - wait->start_ns;
    assert_true(sampling_takes_wait(sampling_hash(SEED, wait->start_ns), length_ns, STANDS_FOR_NS));
    assert_int_equal(wait->weight_ns, length_ns < STANDS_FOR_NS ? STANDS_FOR_NS : length_ns);
    assert_int_equal(wait->count, length_ns < STANDS_FOR_NS ? sampling_wait_count(sampling_hash(SEED, ~wait->start_ns),
                                                                                  length_ns, STANDS_FOR_NS)
                                                            : 1);
    assert_true(wait->queued_ns <= wait->weight_ns);
    e->told_ns += length_ns;
    return true;
}

/* Recorded waits represent those left out; bpf-statistical/waits asserts how accurately. */
static void test_sampled_waits_follow_the_seed(void **state)
{
    (void)state;
    struct expectation e;
    struct watch_options options = watch_defaults;
    options.off_cpu.sample_wait_ns = STANDS_FOR_NS;
    options.sampling_seed = SEED;
    const struct off_cpu_totals stats = record_naps(options, false, false, check_sampled, &e);
    print_message("%llu waits, %llu left out\n", (unsigned long long)stats.recorded,
                  (unsigned long long)stats.left_out);
    assert_int_equal(stats.recorded_ns, e.told_ns);
}

/* Over all random numbers (on a grid this fine), waits of one length are recorded with their total time and count. */
static void test_sampling_is_unbiased(void **state)
{
    enum { STEPS = 4096, OF_NS = 2500 };
    (void)state;
    for (uint64_t length_ns = 1; length_ns < OF_NS; length_ns++) {
        uint64_t taken = 0, waits = 0;
        for (uint64_t i = 0; i < STEPS; i++)
            taken += sampling_takes_wait((uint32_t)((i << 32) / STEPS), length_ns, OF_NS) != 0;
        assert_in_range(taken * OF_NS, STEPS * length_ns, STEPS * length_ns + OF_NS);
        for (uint32_t random = 0; random < length_ns; random++)
            waits += sampling_wait_count(random, length_ns, OF_NS);
        assert_int_equal(waits, OF_NS); /* recorded for length_ns / OF_NS of all waits: one each */
    }
}

static bool find_unfinished(const struct record_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    struct expectation *e = context;
    if (header->kind == RECORD_OFF_CPU_STACK) {
        const struct stack_record *s = (const struct stack_record *)header;
        assert_int_equal(s->user_end, UNWIND_END_NOT_RUNNING);
        assert_int_equal(s->user_frames,
                         s->stack_bytes > 0); /* copied by sleeping_tasks.bpf.c, which has its own test */
        e->stack_ns = header->time_ns;
        return false;
    }
    check_wait(header, wait);
    assert_true(wait->flags & OFF_CPU_UNFINISHED);
    assert_int_equal(wait->syscall, SYS_ppoll);
    assert_int_equal(wait->stack_ns, e->stack_ns);
    assert_true(wait->start_ns <= e->begin_ns && header->time_ns > e->begin_ns);
    assert_int_equal(wait->queued_ns, 0);
    e->waits++;
    return true;
}

static void wait_forever(int ready)
{
    if (write(ready, "", 1) == 1)
        for (;;)
            syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
}

/* Waits by the time this returns. */
static pid_t start_waiting(void)
{
    pid_t pid = watch_child(wait_forever);
    threads_await_blocked(pid, SYS_ppoll);
    return pid;
}

/* A thread that waits before the recording starts and after it ends. */
static void test_thread_waiting_throughout_is_recorded(void **state)
{
    (void)state;
    struct expectation e;
    pid_t pid = start_waiting();
    struct watch w = watch(pid, watch_defaults, &e);
    assert_int_equal(w.source->stop(w.self), 0);
    watch_until(&w, 1, find_unfinished, &e);
    assert_int_equal(w.source->drain(w.self, w.batch), 0);
    assert_int_equal(batch_count(w.batch), 0);
    end(pid);
    watch_end(&w);
}

static bool find_so_far(const struct record_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    if (!find_unfinished(header, context))
        return false;
    assert_true(wait->flags & OFF_CPU_SO_FAR);
    assert_true(wait->weight_ns >= OFF_CPU_SO_FAR_NS);
    return true;
}

/* An unfinished wait is recorded periodically. Nothing is recorded while shed, and afterwards the shed time is not
 * made up for. */
static void test_unfinished_waits_are_recorded_periodically(void **state)
{
    (void)state;
    struct expectation e;
    pid_t pid = start_waiting();
    struct watch w = watch(pid, watch_defaults, &e);
    usleep(OFF_CPU_SO_FAR_NS / 1000 + 10000);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(source_off_cpu.flush(w.self), 0);
        watch_until(&w, 1, find_so_far, &e);
        assert_int_equal(e.waits, i);
    }
    assert_int_equal(w.source->shed(w.self, SOURCE_DETAIL_NO_OFF_CPU), 0);
    watch_until(&w, 1, find_unfinished, &e); /* all of it, as at the end */
    assert_int_equal(off_cpu_source_stats(w.self).recorded, 1);
    assert_int_equal(source_off_cpu.flush(w.self), 0);
    assert_int_equal(w.source->shed(w.self, SOURCE_DETAIL_LEAST), 0);
    assert_int_equal(w.source->shed(w.self, SOURCE_DETAIL_FULL), 0);
    e.begin_ns = clock_monotonic_ns();
    assert_int_equal(w.source->stop(w.self), 0);
    watch_until(&w, 1, find_unfinished, &e);
    assert_int_equal(e.waits, 4);
    assert_int_equal(off_cpu_source_stats(w.self).recorded, 2);
    end(pid);
    watch_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_nap_is_recorded_once),
        cmocka_unit_test(test_pipe_waits_of_a_child_are_recorded),
        cmocka_unit_test(test_run_queue_time_is_recorded),
        cmocka_unit_test(test_run_queue_time_of_a_new_thread_is_recorded),
        cmocka_unit_test(test_waits_below_the_minimum_are_only_counted),
        cmocka_unit_test(test_thread_waiting_throughout_is_recorded),
        cmocka_unit_test(test_unfinished_waits_are_recorded_periodically),
        cmocka_unit_test(test_sampled_waits_follow_the_seed),
        cmocka_unit_test(test_sampling_is_unbiased),
        cmocka_unit_test(test_stack_is_not_reused_for_another_place),
        cmocka_unit_test(test_stack_is_recorded_only_when_it_changes),
        cmocka_unit_test(test_waker_is_recorded),
        cmocka_unit_test(test_wakers_are_recorded_only_on_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
