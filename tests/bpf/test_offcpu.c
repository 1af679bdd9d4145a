/* Waiting time from the kernel to the batch: children that wait in known ways, and what is told of them: how long, in which system
 * call, for what, with which stack, and who ended it. Waits for enough records and not for a time, so that a slow machine is only slower. */
#include "rows.h"
#include "watch.h"

#include "../../probes/offcpu.h"
#include "sources/offcpu.h"
#include "sources/preempt_count.h"
#include "sources/unwind_tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
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

#define NAP_NS 5000000

enum kind { NAPS, TWO_PLACES, PIPES, SHARES_A_CPU, LIVES_SHORTLY };

static void nap(void)
{
    const struct timespec time = {0, NAP_NS};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static void share_a_cpu(void)
{
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    sched_setaffinity(0, sizeof(first), &first);
    if (fork() == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (volatile uint64_t x = 0;; x++)
        ;
}

static pid_t child(enum kind kind)
{
    int ends[2];
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (kind == SHARES_A_CPU)
        share_a_cpu();
    if (kind == PIPES && pipe(ends) == 0 && fork() == 0) {
        char byte;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            if (read(ends[0], &byte, 1) != 1)
                _exit(1);
    }
    for (;;) {
        nap();
        if (kind == TWO_PLACES)
            syscall(SYS_ppoll, NULL, 0, &(struct timespec){0, NAP_NS}, NULL, 0);
        if (kind == PIPES && write(ends[1], "", 1) != 1)
            _exit(1);
        if (kind == LIVES_SHORTLY) {
            pid_t short_lived = fork();
            if (short_lived == 0)
                _exit(0);
            waitpid(short_lived, NULL, 0);
        }
    }
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

struct expectation {
    pid_t pid;
    uint64_t begin_ns;
    uint64_t stack_ns; /* of the last stack that came */
    size_t stacks, waits;
    size_t whole; /* waits as long as they were meant to be */
    uint64_t told_ns;
    int syscall; /* of the waits with that stack; 0: none came yet */
    bool queued;
};

static struct watch watch(pid_t pid, struct source_options options, struct expectation *ret)
{
    *ret = (struct expectation){.pid = pid};
    options.pids[0] = (uint32_t)pid;
    options.pid_count = 1;
    struct watch w = watch_begin(&source_off_cpu, &options);
    ret->begin_ns = clock_monotonic_ns();
    return w;
}

/* The kernel half has the rows of the process: its stacks are whole, and one can be told from another. */
static struct watch watch_walked(pid_t pid, struct expectation *ret)
{
    usleep(100000); /* until it is there */
    struct watch w = watch(pid, watch_defaults, ret);
    assert_true(rows_put_process(off_cpu_source_unwind_tables(w.self), pid) > 0);
    assert_int_equal(w.source->drain(w.self, w.batch), 0);
    batch_clear(w.batch);
    return w;
}

static void check_wait(const struct wire_header *header, const struct off_cpu_wait *wait)
{
    assert_int_equal(header->kind, WIRE_OFF_CPU);
    assert_int_equal(header->size_bytes, sizeof(*wait));
    assert_true(wait->start_ns < header->time_ns);
    assert_int_equal(wait->weight_ns, header->time_ns - wait->start_ns);
    assert_int_equal(wait->count, 1);
    assert_true(wait->queued_ns <= wait->weight_ns);
    assert_true(header->time_ns <= clock_monotonic_ns());
    assert_true(wait->cgroup_id > 0);
}

static bool look_at_naps(const struct wire_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    struct expectation *e = context;
    assert_int_equal(header->pid, e->pid);
    assert_int_equal(header->tid, e->pid);
    if (header->kind == WIRE_OFF_CPU_STACK) {
        const struct cpu_sample *s = (const struct cpu_sample *)header;
        assert_true(s->kernel_frames > 0);
        e->stacks++;
        e->stack_ns = header->time_ns;
        return false;
    }
    check_wait(header, wait);
    if (wait->start_ns < e->begin_ns || wait->flags & (OFF_CPU_PREEMPTED | OFF_CPU_ACCOUNTED))
        return false; /* it napped already; or it was its time slice's end; or the switch to it was one that is not traced */
    assert_int_equal(wait->stack_ns, e->stack_ns);
    assert_int_equal(wait->syscall, SYS_clock_nanosleep);
    assert_int_equal(wait->object, REQUEST_OBJECT_NONE);
    assert_int_equal(wait->flags, 0);
    assert_int_equal(wait->state, 0);
    /* Not each: a machine may stand still between the timer and the switch. */
    e->whole += header->time_ns - wait->start_ns - wait->queued_ns > NAP_NS * 9 / 10;
    e->waits++;
    return true;
}

static void test_naps(void **state)
{
    (void)state;
    struct expectation e;
    struct watch w = watch(child(NAPS), watch_defaults, &e);
    watch_until(&w, ENOUGH, look_at_naps, &e);
    assert_true(e.stacks > 0 && e.whole > e.waits / 2);
    end(e.pid);
    watch_end(&w);
}

static bool look_at_one_place(const struct wire_header *header, void *context)
{
    struct expectation *e = context;
    e->stacks += header->kind == WIRE_OFF_CPU_STACK;
    e->waits += header->kind == WIRE_OFF_CPU && !((const struct off_cpu_wait *)header)->flags;
    return header->kind == WIRE_OFF_CPU;
}

/* A stack is sent when it is another one. */
static void test_one_place(void **state)
{
    (void)state;
    struct expectation e;
    struct watch w = watch_walked(child(NAPS), &e);
    watch_until(&w, 5 * ENOUGH, look_at_one_place, &e);
    print_message("%zu stacks of %zu waits\n", e.stacks, e.waits);
    assert_true(e.waits > 50); /* the others began or ended unseen, or were the end of a time slice */
    assert_true(e.stacks < e.waits);
    end(e.pid);
    watch_end(&w);
}

static bool look_at_places(const struct wire_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    struct expectation *e = context;
    if (header->kind == WIRE_OFF_CPU_STACK) {
        e->stack_ns = header->time_ns;
        e->syscall = 0;
        return false;
    }
    check_wait(header, wait);
    if (wait->flags || !e->stack_ns) /* that stack came before the rows were there */
        return false;
    assert_int_equal(wait->stack_ns, e->stack_ns);
    if (e->syscall)
        assert_int_equal(wait->syscall, e->syscall);
    e->syscall = wait->syscall;
    return true;
}

/* No wait is said to have been where the one before it was. */
static void test_two_places(void **state)
{
    (void)state;
    struct expectation e;
    struct watch w = watch_walked(child(TWO_PLACES), &e);
    watch_until(&w, ENOUGH, look_at_places, &e);
    end(e.pid);
    watch_end(&w);
}

static bool look_at_pipes(const struct wire_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    struct expectation *e = context;
    if (header->kind == WIRE_OFF_CPU_STACK || (pid_t)header->pid == e->pid || wait->flags & OFF_CPU_PREEMPTED)
        return false;
    check_wait(header, wait);
    if (wait->syscall != SYS_read)
        return false;
    assert_int_equal(wait->object, REQUEST_OBJECT_PIPE);
    return true;
}

/* By a child of the process that is asked for, which was there already. */
static void test_pipes(void **state)
{
    (void)state;
    struct expectation e;
    pid_t pid = child(PIPES);
    usleep(100000); /* until it has a child; later is right as well: then that is seen to be born */
    struct watch w = watch(pid, watch_defaults, &e);
    watch_until(&w, ENOUGH, look_at_pipes, &e);
    end(e.pid);
    watch_end(&w);
}

static bool look_at_queue(const struct wire_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    (void)context;
    if (header->kind == WIRE_OFF_CPU_STACK)
        return false;
    check_wait(header, wait);
    if (!(wait->flags & OFF_CPU_PREEMPTED))
        return false;
    assert_int_equal(wait->queued_ns, header->time_ns - wait->start_ns);
    assert_int_equal(wait->syscall, -1);
    return true;
}

static void test_run_queue(void **state)
{
    (void)state;
    struct expectation e;
    struct watch w = watch(child(SHARES_A_CPU), watch_defaults, &e);
    watch_until(&w, ENOUGH, look_at_queue, &e);
    end(e.pid);
    watch_end(&w);
}

static bool look_at_births(const struct wire_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    struct expectation *e = context;
    if (header->kind != WIRE_OFF_CPU || (pid_t)header->pid == e->pid || wait->stack_ns)
        return false;
    check_wait(header, wait);
    assert_int_equal(wait->queued_ns, header->time_ns - wait->start_ns);
    return true;
}

/* What is born waits for its first CPU. */
static void test_births(void **state)
{
    (void)state;
    struct expectation e;
    struct watch w = watch(child(LIVES_SHORTLY), watch_defaults, &e);
    watch_until(&w, ENOUGH, look_at_births, &e);
    end(e.pid);
    watch_end(&w);
}

static void test_minimum(void **state)
{
    (void)state;
    struct expectation e;
    struct source_options options = watch_defaults;
    options.min_wait_ns = 3600000000000;
    struct watch w = watch(child(NAPS), options, &e);
    uint64_t patience_ns = clock_monotonic_ns() + 60000000000;
    struct off_cpu_figures figures;
    do
        figures = off_cpu_source_figures(w.self);
    while (figures.short_count < ENOUGH && clock_monotonic_ns() < patience_ns);
    assert_true(figures.short_count >= ENOUGH);
    assert_true(figures.short_ns > figures.short_count / 2 * NAP_NS);
    assert_int_equal(figures.told, 0);
    end(e.pid);
    watch_end(&w);
}

struct waker_expectation {
    struct expectation e;
    struct {
        pid_t waiter;
        uint32_t tid;
        uint64_t time_ns;
        size_t kernel_frames, user_frames;
    } last[2]; /* who woke the child and its own child */
    size_t by_thread, by_interrupt;
    bool known; /* whether this kernel tells interrupts from threads */
};

static void note_waker(struct waker_expectation *x, const struct cpu_sample *s)
{
    const pid_t waiter = (pid_t)(s->weight_ns >> 32);
    const size_t i = waiter != x->e.pid;
    assert_int_equal((uint32_t)s->weight_ns, waiter); /* their only threads */
    assert_true(s->h.time_ns > x->last[i].time_ns);
    x->last[i].waiter = waiter;
    x->last[i].tid = s->h.tid;
    x->last[i].time_ns = s->h.time_ns;
    x->last[i].kernel_frames = s->kernel_frames;
    x->last[i].user_frames = s->user_frames;
}

/* The child naps, and so is woken by a timer; then it lets its own child go. */
static bool look_at_wakers(const struct wire_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    struct waker_expectation *x = context;
    if (header->kind == WIRE_OFF_CPU_WAKER)
        note_waker(x, (const struct cpu_sample *)header);
    if (header->kind != WIRE_OFF_CPU)
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
        assert_int_equal(wait->waker, x->known ? OFF_CPU_WAKER_THREAD : OFF_CPU_WAKER_UNTOLD);
        assert_int_equal(x->last[i].tid, x->e.pid);
        assert_true(x->last[i].user_frames > 0);
        x->by_thread++;
    }
    return x->by_thread >= ENOUGH && x->by_interrupt >= ENOUGH;
}

static void test_wakers(void **state)
{
    (void)state;
    struct waker_expectation x = {.known = preempt_count_distance() != 0};
    struct source_options options = watch_defaults;
    options.wakers = true;
    print_message("interrupts are told %s\n", x.known ? "by the kernel's count" : "by names");
    struct watch w = watch(child(PIPES), options, &x.e);
    watch_until(&w, 1, look_at_wakers, &x);
    end(x.e.pid);
    watch_end(&w);
}

static bool look_for_wakers(const struct wire_header *header, void *context)
{
    (void)context;
    assert_int_not_equal(header->kind, WIRE_OFF_CPU_WAKER);
    if (header->kind == WIRE_OFF_CPU)
        assert_int_equal(((const struct off_cpu_wait *)header)->waker, OFF_CPU_WAKER_NONE);
    return header->kind == WIRE_OFF_CPU;
}

static void test_wakers_are_for_who_asks(void **state)
{
    (void)state;
    struct expectation e;
    struct watch w = watch(child(PIPES), watch_defaults, &e);
    watch_until(&w, ENOUGH, look_for_wakers, &e);
    end(e.pid);
    watch_end(&w);
}

#define STANDS_FOR_NS (8ULL * NAP_NS)

static bool look_at_sampled(const struct wire_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    struct expectation *e = context;
    if (header->kind == WIRE_OFF_CPU_STACK)
        return false;
    const uint64_t length_ns = header->time_ns - wait->start_ns;
    if (length_ns >= STANDS_FOR_NS) { /* the machine is slow */
        assert_int_equal(wait->weight_ns, length_ns);
        assert_int_equal(wait->count, 1);
    } else {
        assert_int_equal(wait->weight_ns, STANDS_FOR_NS);
        assert_in_range(wait->count, STANDS_FOR_NS / length_ns, STANDS_FOR_NS / length_ns + 1);
        assert_true(wait->queued_ns <= wait->weight_ns);
    }
    e->told_ns += wait->weight_ns;
    if (!(wait->flags & OFF_CPU_PREEMPTED)) /* a few, so short that one of them stands for thousands */
        e->waits += wait->count;
    return true;
}

/* What is told stands for what is not: the sums are true, within what chance does. */
static void test_sampled(void **state)
{
    (void)state;
    struct expectation e;
    struct source_options options = watch_defaults;
    options.sample_wait_ns = STANDS_FOR_NS;
    struct watch w = watch(child(NAPS), options, &e);
    watch_until(&w, 10 * ENOUGH, look_at_sampled, &e);
    assert_int_equal(w.source->stop(w.self), 0);
    assert_int_equal(w.source->drain(w.self, w.batch), 0);
    for (size_t i = 0; i < batch_count(w.batch); i++)
        look_at_sampled(batch_get(w.batch, i), &e);
    batch_clear(w.batch);
    const struct off_cpu_figures figures = off_cpu_source_figures(w.self);
    const double true_ns = (double)(figures.told_ns + figures.left_out_ns), true_count = (double)(figures.told + figures.left_out);
    print_message("%.3f of the time, %.3f of the waits\n", (double)e.told_ns / true_ns, (double)e.waits / true_count);
    assert_true(figures.left_out > 0);
    assert_in_range((double)e.told_ns / true_ns * 1000, 500, 1500); /* of 200: seven standard deviations */
    assert_in_range((double)e.waits / true_count * 1000, 500, 1500);
    end(e.pid);
    watch_end(&w);
}

static bool look_for_unfinished(const struct wire_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    struct expectation *e = context;
    if (header->kind == WIRE_OFF_CPU_STACK) {
        const struct cpu_sample *s = (const struct cpu_sample *)header;
        assert_int_equal(s->user_end, UNWIND_END_NOT_RUNNING);
        assert_int_equal(s->user_frames, s->stack_bytes > 0); /* what asleep.bpf.c copied, which has its own test */
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

/* Waits by the time that this returns. */
static pid_t start_waiting(void)
{
    pid_t pid = watch_child(wait_forever);
    usleep(100000);
    return pid;
}

/* A thread that waits before and after. */
static void test_all_the_time(void **state)
{
    (void)state;
    struct expectation e;
    pid_t pid = start_waiting();
    struct watch w = watch(pid, watch_defaults, &e);
    usleep(50000);
    assert_int_equal(w.source->stop(w.self), 0);
    watch_until(&w, 1, look_for_unfinished, &e);
    usleep(50000);
    assert_int_equal(w.source->drain(w.self, w.batch), 0);
    assert_int_equal(batch_count(w.batch), 0);
    end(pid);
    watch_end(&w);
}

static bool look_for_so_far(const struct wire_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    if (!look_for_unfinished(header, context))
        return false;
    assert_true(wait->flags & OFF_CPU_SO_FAR);
    assert_true(wait->weight_ns >= OFF_CPU_SO_FAR_NS);
    return true;
}

/* It is told while it goes on, as often as that is asked for; while it is shed there is nothing of it, and afterwards nothing of the time before. */
static void test_so_far(void **state)
{
    (void)state;
    struct expectation e;
    pid_t pid = start_waiting();
    struct watch w = watch(pid, watch_defaults, &e);
    usleep(OFF_CPU_SO_FAR_NS / 1000 + 10000);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(off_cpu_source_tell_so_far(w.self), 0);
        watch_until(&w, 1, look_for_so_far, &e);
        assert_int_equal(e.waits, i);
    }
    assert_int_equal(w.source->shed(w.self, SOURCE_DETAIL_COUNTS), 0);
    watch_until(&w, 1, look_for_unfinished, &e); /* all of it, as at the end */
    assert_int_equal(off_cpu_source_figures(w.self).told, 1);
    assert_int_equal(off_cpu_source_tell_so_far(w.self), 0);
    assert_int_equal(w.source->shed(w.self, SOURCE_DETAIL_LEAST), 0);
    assert_int_equal(w.source->shed(w.self, SOURCE_DETAIL_FULL), 0);
    e.begin_ns = clock_monotonic_ns();
    usleep(50000);
    assert_int_equal(w.source->stop(w.self), 0);
    watch_until(&w, 1, look_for_unfinished, &e);
    assert_int_equal(e.waits, 4);
    assert_int_equal(off_cpu_source_figures(w.self).told, 2);
    end(pid);
    watch_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_naps),   cmocka_unit_test(test_pipes),   cmocka_unit_test(test_run_queue),
        cmocka_unit_test(test_births), cmocka_unit_test(test_minimum), cmocka_unit_test(test_all_the_time), cmocka_unit_test(test_so_far),
        cmocka_unit_test(test_sampled), cmocka_unit_test(test_two_places), cmocka_unit_test(test_one_place),
        cmocka_unit_test(test_wakers), cmocka_unit_test(test_wakers_are_for_who_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
