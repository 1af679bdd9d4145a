/* The thread context in the record of a wait's stack: a child naps in one place repeatedly, each time for another
 * request. An equal stack does not mean an equal request. */
#include "rows.h"
#include "watch.h"
#include "workload.h"

#include "probes/offcpu.h"
#include "probes/thread_context.h"
#include "sources/offcpu/offcpu.h"
#include "sources/tables/unwind_tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define NAPS 40

/* Published as in OTEP 4947: each nap belongs to another request, every fourth to none. */
static __thread const struct thread_context_record *volatile works_for;

static void take_next_request(void)
{
    static struct thread_context_record record = {.valid = 1, .span_id = 1};
    static uint64_t number;
    works_for = NULL;
    record.trace_id[1] = __builtin_bswap64(++number);
    if (number % 4)
        works_for = &record;
}

static void nap_for_requests(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        take_next_request();
        workload_nap(1);
    }
    works_for = NULL;
}

struct expectation {
    uint64_t begin_ns;
    uint64_t stack_ns;       /* of the last stack; 0: none yet */
    uint64_t number, before; /* of the request of that stack, 0: no request; and of the last wait that had one */
    size_t linked, unlinked;
};

static uint64_t number_of(const struct stack_record *s)
{
    struct link_ids ids;
    if (!(s->flags & STACK_RECORD_LINKED))
        return 0;
    memcpy(&ids, (const char *)s + s->h.size_bytes - sizeof(ids), sizeof(ids));
    assert_int_equal(ids.trace_id_high, 0);
    assert_int_equal(ids.span_id, __builtin_bswap64(1));
    return ids.trace_id_low;
}

static bool check(const struct record_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    struct expectation *e = context;
    if (header->kind == RECORD_OFF_CPU_STACK) {
        e->stack_ns = header->time_ns;
        e->number = number_of((const struct stack_record *)header);
        return false;
    }
    assert_int_equal(header->kind, RECORD_OFF_CPU);
    if (wait->flags || wait->syscall != SYS_clock_nanosleep || wait->start_ns < e->begin_ns || !e->stack_ns)
        return false; /* not complete, or not a nap; or its stack was recorded before the process was known */
    assert_int_equal(wait->stack_ns, e->stack_ns);
    e->linked += e->number != 0;
    e->unlinked += e->number == 0;
    if (!e->number)
        return true;
    assert_true(e->number % 4 != 0 && e->number > e->before && e->number <= NAPS);
    e->before = e->number;
    return true;
}

static void test_each_wait_carries_its_own_request(void **state)
{
    (void)state;
#if !defined(__x86_64__)
    skip(); /* the thread pointer is read only on this architecture */
#endif
    struct expectation e = {0};
    struct watch_options options = watch_defaults;
    struct workload child = workload_start(NULL, NULL);
    const pid_t pid = child.pid;
    options.filter.pids[0] = (uint32_t)pid;
    options.filter.pid_count = 1;
    struct watch w = watch_begin(&source_off_cpu, &options);
    assert_true(unwind_load_process(watch_unwind_tables(&w), pid) > 0); /* otherwise each stack is distinct */
    struct context_tables tables;
    assert_true(shared_tables_contexts(w.tables, &tables));
    const struct thread_context_place place = {.kind = THREAD_CONTEXT_OFFSET,
                                               .place = (uint64_t)&works_for - (uint64_t)__builtin_thread_pointer()};
    assert_int_equal(context_tables_set_thread_context(&tables, (uint32_t)pid, &place), 0);
    assert_int_equal(w.source->drain(w.self, w.batch), 0);
    batch_clear(w.batch);
    e.begin_ns = clock_monotonic_ns();
    workload_begin(&child, nap_for_requests, NAPS);
    workload_interrupt(&child, NAPS, 0);
    workload_await(&child);
    assert_int_equal(w.source->stop(w.self), 0);
    watch_until(&w, 1, check, &e); /* all have arrived */
    print_message("%zu waits of a request's, %zu of none\n", e.linked, e.unlinked);
    assert_in_range(e.linked, 1, NAPS - NAPS / 4);
    assert_in_range(e.unlinked, 1, NAPS / 4);
    workload_end(&child);
    watch_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_wait_carries_its_own_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
