/* See workload.h. */
#include "workload.h"

#include "sources/attach/sample_event.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define PAGE 4096UL

/* The child is a fork, so a function pointer is valid in it. */
struct request {
    void (*work)(unsigned);
    unsigned count;
};

_Static_assert(sizeof(struct request) == WORKLOAD_REQUEST_BYTES, "stated in the header");

static int requests, answers; /* the child's ends */
static volatile char *page;
extern const char __start_code_fault[], __stop_code_fault[];

static void wake(int number)
{
    (void)number;
}

struct workload workload_start(void (*enter)(void *context), void *context)
{
    int go[2], done[2];
    struct workload w;

    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(done), 0);
    w.pid = fork();
    if (w.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sigaction(SIGUSR1, &(struct sigaction){.sa_handler = wake}, NULL); /* without SA_RESTART it ends a nap */
        close(go[1]);
        close(done[0]);
        requests = go[0];
        answers = done[1];
        page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (enter)
            enter(context);
        workload_serve();
    }
    assert_true(w.pid > 0);
    close(go[0]);
    close(done[1]);
    w.go = go[1];
    w.done = done[0];
    workload_await(&w);
    return w;
}

void workload_end(struct workload *w)
{
    close(w->go);
    close(w->done);
    kill(w->pid, SIGKILL);
    waitpid(w->pid, NULL, 0);
}

_Noreturn void workload_serve(void)
{
    struct request request;

    workload_fault(2); /* its code, data and stack are resident from here on */
    while (write(answers, "", 1) == 1 && read(requests, &request, sizeof(request)) == (ssize_t)sizeof(request))
        request.work(request.count);
    _exit(1);
}

void workload_ends(int *ret_requests, int *ret_answers)
{
    *ret_requests = requests;
    *ret_answers = answers;
}

void workload_begin(struct workload *w, void (*work)(unsigned), unsigned count)
{
    const struct request request = {work, count};

    assert_int_equal(write(w->go, &request, sizeof(request)), sizeof(request));
}

void workload_await(struct workload *w)
{
    char byte;

    assert_int_equal(read(w->done, &byte, 1), 1);
    threads_await_blocked(w->pid, SYS_read);
}

void workload_run(struct workload *w, void (*work)(unsigned), unsigned count)
{
    workload_begin(w, work, count);
    workload_await(w);
}

/* ---- workload functions ---- */

/* Alone in its section, so that its leaf address is unambiguous. */
__attribute__((noinline, noclone, section("code_fault"), no_sanitize("address", "undefined"))) static void
touch_page(void)
{
    *page = 1;
}

void workload_fault(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        madvise((void *)page, PAGE, MADV_DONTNEED);
        touch_page();
    }
}

bool workload_faulted(const struct stack_record *s)
{
    const __u64 leaf = s->user_frames ? s->data[s->kernel_frames] & ~FRAME_EXACT : 0;

    return leaf >= (uintptr_t)__start_code_fault && leaf < (uintptr_t)__stop_code_fault;
}

void workload_call(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        syscall(SYS_getppid);
}

static void nap_once(void)
{
    syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &(struct timespec){.tv_sec = 3600}, NULL);
}

void workload_nap(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        nap_once();
}

void workload_nap_in_two_places(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        nap_once();
        syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
    }
}

static void interrupt(const struct workload *w, long number, uint64_t hold_ns)
{
    threads_await_blocked(w->pid, number);
    for (const uint64_t end_ns = clock_monotonic_ns() + hold_ns; clock_monotonic_ns() < end_ns;)
        usleep(100);
    assert_int_equal(kill(w->pid, SIGUSR1), 0); /* runnable when this returns: the next block is another nap */
}

void workload_interrupt(const struct workload *w, unsigned count, uint64_t hold_ns)
{
    for (unsigned i = 0; i < count; i++)
        interrupt(w, SYS_clock_nanosleep, hold_ns);
}

void workload_interrupt_in_two_places(const struct workload *w, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        interrupt(w, SYS_clock_nanosleep, 0);
        interrupt(w, SYS_ppoll, 0);
    }
}

/* ---- recording ---- */

struct watch workload_watch(struct watch_options options, const char *event_name)
{
    struct sample_event event;

    assert_int_equal(sample_event_parse(event_name, &event), 0);
    options.event = &event; /* borrowed during open */
    return watch_begin(&source_cpu, &options);
}

static size_t take_records(struct watch *w, bool (*check)(const struct record_header *, void *), void *context)
{
    size_t seen = 0, records;

    do {
        batch_begin(w->batch, UINT64_MAX);
        assert_int_equal(w->source->drain(w->self, w->batch), 0);
        shared_tables_follow(w->tables, clock_monotonic_ns());
        batch_end(w->batch, UINT64_MAX);
        records = batch_count(w->batch);
        for (size_t i = 0; i < records; i++)
            seen += check(batch_get(w->batch, i), context);
        batch_clear(w->batch);
    } while (records > 0);
    return seen;
}

void workload_expect(struct watch *w, uint64_t count, bool (*check)(const struct record_header *, void *),
                     void *context)
{
    assert_int_equal(w->source->stop(w->self), 0);
    const size_t seen = take_records(w, check, context);
    struct losses losses = watch_losses(w);
    const uint64_t missed = losses.count[LOSS_MISSED];
    losses.count[LOSS_MISSED] = 0;
    for (int i = 0; i < LOSS_COUNT; i++)
        if (losses.count[i])
            fail_msg("lost: %llu %s", (unsigned long long)losses.count[i], loss_name((enum loss_reason)i));
    if (seen > count || seen + missed < count)
        fail_msg("%zu records of %llu, %llu missed", seen, (unsigned long long)count, (unsigned long long)missed);
}

void workload_unwatch(struct watch *w)
{
    w->source->free(w->self);
    if (!w->shares_tables)
        shared_tables_free(w->tables);
    batch_free(w->batch);
}
