/* Waits of the threads of watched processes, by both methods: each is recorded once, with a stack that is sent once and
 * is complete; other processes leave no trace. Likewise samples of threads that run. */
#include "../connection.h"
#include "../rows.h"
#include "../workload.h"

#include "signals/signals.h"
#include "sources/attach/perf_events.h"
#include "sources/request/request.h"
#include "sources/tables/unwind_tables.h"
#include "sources/waits/waits.h"

#include <linux/types.h>

#include "probes/waits.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define HOLD_NS     3000000
#define NAPS        20
#define WAITS_MAX   256
#define BATCH_BYTES (16U << 20)

static struct watch open_by(enum waits_method method)
{
    struct watch w = {.source = &source_waits, .tables = watch_tables(&watch_defaults, false)};
    const struct source_services services = watch_services(&watch_defaults, w.tables);
    struct attach_report report = {0};
    if (waits_source_open_by(&services, &report, method, &w.self) < 0) {
        printf("skipped: %s\n", report.entries[0].fallback_reason);
        shared_tables_free(w.tables);
        skip();
    }
    assert_int_equal(batch_new(BATCH_BYTES, signals_check_record, &w.batch), 0);
    return w;
}

struct recorded {
    struct wait_record waits[WAITS_MAX];
    struct stack_record stacks[WAITS_MAX];
    size_t wait_count, stack_count;
};

static void drain(struct watch *w, struct recorded *ret)
{
    *ret = (struct recorded){0};
    batch_begin(w->batch, UINT64_MAX);
    assert_int_equal(source_waits.drain(w->self, w->batch), 0);
    batch_end(w->batch, UINT64_MAX);
    for (size_t i = 0; i < batch_count(w->batch); i++) {
        const struct record_header *header = batch_get(w->batch, i);
        if (header->kind == RECORD_WAIT) {
            assert_true(ret->wait_count < WAITS_MAX);
            ret->waits[ret->wait_count++] = *(const struct wait_record *)header;
        } else if (header->kind == RECORD_WAIT_STACK) {
            assert_true(ret->stack_count < WAITS_MAX);
            ret->stacks[ret->stack_count++] = *(const struct stack_record *)header;
        }
    }
    batch_clear(w->batch);
}

static void nap(struct workload *child, unsigned count)
{
    workload_begin(child, workload_nap, count);
    workload_interrupt(child, count, HOLD_NS);
    workload_await(child);
}

static size_t count_at(const struct recorded *r, uint64_t stack)
{
    size_t count = 0;
    for (size_t i = 0; i < r->wait_count; i++)
        count += r->waits[i].stack == stack;
    return count;
}

static const struct stack_record *stack_of(const struct recorded *r, uint64_t name)
{
    const struct stack_record *found = NULL;
    for (size_t i = 0; i < r->stack_count; i++)
        if (r->stacks[i].wait.name == name) {
            assert_null(found); /* sent once */
            found = &r->stacks[i];
        }
    return found;
}

static void test_waits_of_a_watched_process(void **state)
{
    struct recorded r;
    struct watch w = open_by((enum waits_method)(uintptr_t)*state);
    struct workload child = workload_start(NULL, NULL), other = workload_start(NULL, NULL);
    const uint32_t pid = (uint32_t)child.pid;
    size_t places = 0;
    assert_true(unwind_load_process(shared_tables_unwind(w.tables), child.pid) > 0);
    nap(&child, 2);
    drain(&w, &r);
    assert_int_equal(r.wait_count + r.stack_count, 0); /* no process is watched */
    waits_source_watch(w.self, &pid, 1);
    nap(&child, 2); /* it came back once before its first wait that is known */
    drain(&w, &r);
    const uint64_t begin_ns = clock_monotonic_ns();
    nap(&other, NAPS);
    nap(&child, NAPS);
    const uint64_t end_ns = clock_monotonic_ns();
    struct recorded before = r;
    drain(&w, &r);
    for (size_t i = 0; i < r.wait_count; i++) {
        const struct wait_record *wait = &r.waits[i];
        assert_int_equal(wait->h.pid, pid);
        assert_int_equal(wait->h.tid, pid);
        assert_true(wait->h.time_ns > wait->start_ns && wait->h.time_ns <= end_ns);
        if (count_at(&r, wait->stack) != NAPS) /* it waited to be asked to nap */
            continue;
        places++;
        assert_true(wait->h.time_ns - wait->start_ns >= HOLD_NS && wait->start_ns >= begin_ns);
        const struct stack_record *stack = stack_of(&before, wait->stack) ?: stack_of(&r, wait->stack);
        assert_non_null(stack);
        assert_int_equal(stack->user_end, UNWIND_END_ENTRY);
        assert_true(stack->kernel_frames > 2 && stack->user_frames > 2);
    }
    assert_int_equal(places, NAPS);
    waits_source_watch(w.self, NULL, 0);
    nap(&child, 2);
    drain(&w, &r);
    assert_int_equal(r.wait_count + r.stack_count, 0);
    workload_end(&child);
    workload_end(&other);
    watch_end(&w);
}

static void nap_briefly(unsigned count)
{
    while (count-- > 0)
        usleep(50);
}

static void spin_and_nap_briefly(unsigned count)
{
    while (count-- > 0) {
        const uint64_t end_ns = clock_monotonic_ns() + WAITS_RUN_NS + 1000000;
        while (clock_monotonic_ns() < end_ns)
            ;
        usleep(50);
    }
}

static size_t drain_short_waits(struct watch *w)
{
    struct recorded r;
    size_t count = 0;
    drain(w, &r);
    for (size_t i = 0; i < r.wait_count; i++)
        count += r.waits[i].h.time_ns - r.waits[i].start_ns < WAITS_MIN_NS;
    return count;
}

/* A thread that is preempted did not run for long, and one whose CPU the hypervisor took did: so each is tried until it
 * is left alone. */
static void test_short_waits_only_after_a_long_run(void **state)
{
    struct watch w = open_by((enum waits_method)(uintptr_t)*state);
    struct workload child = workload_start(NULL, NULL);
    const uint32_t pid = (uint32_t)child.pid;
    size_t after_run = 0, others = 1;
    assert_true(unwind_load_process(shared_tables_unwind(w.tables), child.pid) > 0);
    waits_source_watch(w.self, &pid, 1);
    for (int i = 0; i < 100 && !after_run; i++) {
        workload_run(&child, spin_and_nap_briefly, 10);
        after_run = drain_short_waits(&w);
    }
    assert_true(after_run > 0);
    for (int i = 0; i < 100 && others; i++) {
        workload_run(&child, nap_briefly, 100);
        others = drain_short_waits(&w);
    }
    assert_int_equal(others, 0);
    workload_end(&child);
    watch_end_despite(&w, 1ULL << LOSS_SHED); /* waits beyond the share of a slow CPU */
}

static void *nap_once(void *context)
{
    (void)context;
    usleep(20000);
    return NULL;
}

static void nap_in_new_threads(unsigned count)
{
    for (pthread_t thread; count-- > 0;)
        if (pthread_create(&thread, NULL, nap_once, NULL) == 0)
            pthread_join(thread, NULL);
}

/* Servers with a thread for each request. */
static void test_first_wait_of_a_thread(void **state)
{
    struct recorded r;
    struct watch w = open_by((enum waits_method)(uintptr_t)*state);
    struct workload child = workload_start(NULL, NULL);
    const uint32_t pid = (uint32_t)child.pid;
    size_t naps = 0;
    assert_true(unwind_load_process(shared_tables_unwind(w.tables), child.pid) > 0);
    waits_source_watch(w.self, &pid, 1);
    workload_run(&child, nap_in_new_threads, 8);
    drain(&w, &r);
    for (size_t i = 0; i < r.wait_count; i++) {
        const uint64_t lasted_ns = r.waits[i].h.time_ns - r.waits[i].start_ns;
        naps += r.waits[i].h.tid != pid && lasted_ns >= 19000000;
    }
    assert_int_equal(naps, 8);
    workload_end(&child);
    watch_end(&w);
}

static int ends[2]; /* of a connection: the client's, and the server's */

#define GET  "GET / HTTP/1.1\r\n\r\n"
#define HEAD "POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n"
#define BODY "body"

/* Replies to `count` requests. The body of one comes later than its head. */
static void serve(unsigned count)
{
    static const char reply[] = "HTTP/1.1 204 No Content\r\n\r\n";
    char text[256];
    while (count-- > 0) {
        const ssize_t n = recv(ends[1], text, sizeof(text), 0);
        if (n <= 0 || (text[0] == 'P' && recv(ends[1], text, sizeof(text), 0) <= 0) ||
            send(ends[1], reply, sizeof(reply) - 1, 0) < 0)
            _exit(1);
    }
}

static void send_late(pid_t child, const char *text)
{
    threads_await_blocked(child, SYS_recvfrom);
    usleep(HOLD_NS / 1000);
    assert_int_equal(send(ends[0], text, strlen(text), 0), strlen(text));
}

static void read_reply(void)
{
    char text[256];
    assert_true(recv(ends[0], text, sizeof(text), 0) > 0);
}

/* A server that waits for a client waits for nothing that a request needs. */
static void test_waits_for_the_next_request_have_no_stack(void **state)
{
    struct recorded r;
    connect_pair(ends);
    struct watch w = open_by((enum waits_method)(uintptr_t)*state);
    struct watch_options options = watch_defaults;
    options.tables = w.tables;
    options.settings = &(struct request_options){.enabled = true};
    struct watch requests = watch_begin(&source_request, &options);
    struct workload child = workload_start(NULL, NULL);
    const uint32_t pid = (uint32_t)child.pid;
    assert_true(unwind_load_process(shared_tables_unwind(w.tables), child.pid) > 0);
    waits_source_watch(w.self, &pid, 1);
    workload_begin(&child, serve, 1 + 2 * NAPS);
    send_late(child.pid, GET);
    read_reply();
    drain(&w, &r);
    for (int i = 0; i < NAPS; i++) {
        send_late(child.pid, GET);
        read_reply();
    }
    drain(&w, &r);
    assert_int_equal(r.wait_count, 0);
    for (int i = 0; i < NAPS; i++) {
        send_late(child.pid, HEAD);
        send_late(child.pid, BODY);
        read_reply();
    }
    drain(&w, &r);
    assert_true(r.wait_count > 0 && r.wait_count <= NAPS); /* for the body */
    workload_end(&child);
    watch_end_despite(&requests, ~0ULL); /* of other servers of this node */
    watch_end(&w);
    close(ends[0]);
    close(ends[1]);
}

/* Runs for `count` ticks of the clock and more. */
static void spin(unsigned count)
{
    const uint64_t end_ns = clock_monotonic_ns() + (uint64_t)count * 1000000000 / WAITS_RUN_HZ;
    while (clock_monotonic_ns() < end_ns)
        ;
}

/* Counts the samples of running threads before `before_ns`; all are of `pid`. */
static size_t drain_runs_before(struct watch *w, uint32_t pid, uint64_t before_ns)
{
    size_t count = 0;
    batch_begin(w->batch, UINT64_MAX);
    assert_int_equal(source_waits.drain(w->self, w->batch), 0);
    batch_end(w->batch, UINT64_MAX);
    for (size_t i = 0; i < batch_count(w->batch); i++) {
        const struct record_header *header = batch_get(w->batch, i);
        if (header->kind != RECORD_RUN)
            continue;
        assert_int_equal(header->pid, pid);
        assert_true(((const struct run_record *)header)->stack != 0);
        count += header->time_ns < before_ns;
    }
    batch_clear(w->batch);
    return count;
}

static size_t drain_runs(struct watch *w, uint32_t pid)
{
    return drain_runs_before(w, pid, UINT64_MAX);
}

/* Samples come while the process is watched, and not while such detail is shed. */
static void test_samples_of_a_watched_process(void **state)
{
    struct watch w = open_by((enum waits_method)(uintptr_t)*state);
    struct workload child = workload_start(NULL, NULL), other = workload_start(NULL, NULL);
    const uint32_t pid = (uint32_t)child.pid;
    size_t runs = 0;
    assert_true(unwind_load_process(shared_tables_unwind(w.tables), child.pid) > 0);
    workload_run(&child, spin, 20);
    assert_int_equal(drain_runs(&w, pid), 0);
    waits_source_watch(w.self, &pid, 1);
    for (int i = 0; i < 100 && runs < 3; i++) { /* until the CPU was its own for some ticks */
        workload_run(&other, spin, 5);
        workload_run(&child, spin, 20);
        runs += drain_runs(&w, pid);
    }
    assert_true(runs >= 3);
    assert_int_equal(source_waits.shed(w.self, SOURCE_DETAIL_NO_WAIT_STACKS), 0);
    drain_runs(&w, pid);
    workload_run(&child, spin, 20);
    assert_int_equal(drain_runs(&w, pid), 0);
    workload_end(&child);
    workload_end(&other);
    watch_end(&w);
}

/* Makes the programs believe that the stack of thread `tid` is being walked on every CPU; 0: of none. Returns how many
 * CPUs had a tick within a walk. */
static size_t set_at_work(uint32_t tid)
{
    const size_t cpus = (size_t)libbpf_num_possible_cpus();
    size_t ticks = 0;
    struct waits_stats *stats = calloc(cpus, sizeof(*stats));
    assert_non_null(stats);
    for (int fd = 3; fd < 1024; fd++) {
        struct bpf_map_info info = {0}; /* of a program it would have pointers to write to */
        __u32 size = sizeof(info), zero = 0;
        if (bpf_obj_get_info_by_fd(fd, &info, &size) < 0 || strcmp(info.name, "stats") != 0 ||
            info.value_size != sizeof(*stats))
            continue;
        assert_int_equal(bpf_map_lookup_elem(fd, &zero, stats), 0);
        for (size_t i = 0; i < cpus; i++) {
            stats[i].at_work = tid;
            ticks += stats[i].tick_ns != 0;
        }
        assert_int_equal(bpf_map_update_elem(fd, &zero, stats, BPF_ANY), 0);
    }
    free(stats);
    return ticks;
}

/* The tick found the thread running whose stack the program was walking. */
static void test_sample_during_a_walk_has_its_stack(void **state)
{
    struct watch w = open_by((enum waits_method)(uintptr_t)*state);
    struct workload child = workload_start(NULL, NULL);
    const uint32_t pid = (uint32_t)child.pid;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus); /* it waits where the tick was */
    assert_int_equal(sched_setaffinity(child.pid, sizeof(cpus), &cpus), 0);
    set_at_work(pid);
    waits_source_watch(w.self, &pid, 1);
    for (int i = 0; i < 1000 && !set_at_work(pid); i++)
        workload_run(&child, spin, 5);
    assert_int_equal(set_at_work(0), 1);
    assert_int_equal(drain_runs(&w, pid), 0);
    const uint64_t walks_ns = clock_monotonic_ns();
    nap(&child, 3);
    assert_int_equal(drain_runs_before(&w, pid, walks_ns), 1);
    workload_end(&child);
    watch_end_despite(&w, 1 << LOSS_MISSED | 1 << LOSS_SHED); /* its waits while its stack seemed to be walked */
}

static void test_samples_during_the_walk_of_another_thread_are_missed(void **state)
{
    struct watch w = open_by((enum waits_method)(uintptr_t)*state);
    struct workload child = workload_start(NULL, NULL);
    const uint32_t pid = (uint32_t)child.pid;
    set_at_work(1);
    waits_source_watch(w.self, &pid, 1);
    for (int i = 0; i < 1000 && watch_losses(&w).count[LOSS_MISSED] == 0; i++)
        workload_run(&child, spin, 5);
    assert_true(watch_losses(&w).count[LOSS_MISSED] > 0);
    assert_int_equal(drain_runs(&w, pid), 0);
    set_at_work(0);
    workload_end(&child);
    watch_end_despite(&w, 1 << LOSS_MISSED | 1 << LOSS_SHED); /* at switches, waits without a stack as well */
}

static int follow_error;

int __real_perf_events_follow(struct perf_events *e, uint64_t now_ns);
int __wrap_perf_events_follow(struct perf_events *e, uint64_t now_ns);
int __wrap_perf_events_follow(struct perf_events *e, uint64_t now_ns)
{
    return follow_error ?: __real_perf_events_follow(e, now_ns);
}

/* Waits, and samples of the other CPUs, are still recorded. */
static void test_new_cpu_without_samples_is_a_loss(void **state)
{
    struct watch w = open_by((enum waits_method)(uintptr_t)*state);
    drain_runs(&w, 0);
    assert_int_equal(watch_losses(&w).count[LOSS_MISSED], 0);
    follow_error = -ENOMEM;
    drain_runs(&w, 0);
    follow_error = 0;
    drain_runs(&w, 0);
    assert_int_equal(watch_losses(&w).count[LOSS_MISSED], 1);
    watch_end_despite(&w, 1 << LOSS_MISSED);
}

#define CASE(name, test, method)                                                                                       \
    {                                                                                                                  \
        name, test, NULL, NULL, (void *)(uintptr_t)(method)                                                            \
    }
#define CASES(name, method)                                                                                            \
    CASE("waits_of_a_watched_process_" name, test_waits_of_a_watched_process, method),                                 \
        CASE("first_wait_of_a_thread_" name, test_first_wait_of_a_thread, method),                                     \
        CASE("short_waits_only_after_a_long_run_" name, test_short_waits_only_after_a_long_run, method),               \
        CASE("samples_of_a_watched_process_" name, test_samples_of_a_watched_process, method),                         \
        CASE("sample_during_a_walk_has_its_stack_" name, test_sample_during_a_walk_has_its_stack, method),             \
        CASE("samples_during_the_walk_of_another_thread_are_missed_" name,                                             \
             test_samples_during_the_walk_of_another_thread_are_missed, method),                                       \
        CASE("new_cpu_without_samples_is_a_loss_" name, test_new_cpu_without_samples_is_a_loss, method)

static bool can_attach(enum waits_method method)
{
    struct shared_tables *tables = watch_tables(&watch_defaults, false);
    const struct source_services services = watch_services(&watch_defaults, tables);
    struct attach_report report = {0};
    void *self = NULL;
    const bool can = waits_source_open_by(&services, &report, method, &self) == 0;
    if (can)
        source_waits.free(self);
    shared_tables_free(tables);
    return can;
}

/* At switches, a wait is missed now and then on a busy machine: walks have used up their share of the CPU, or the
 * kernel has no memory for a new thread's storage at that moment. On kernels that have the other method, these cases
 * run with the argument "statistical" only. */
int main(int argc, char **argv)
{
    (void)argv;
    const struct CMUnitTest at_return[] = {
        CASES("at_return", WAITS_AT_RETURN),
        CASE("waits_for_the_next_request_have_no_stack", test_waits_for_the_next_request_have_no_stack,
             WAITS_AT_RETURN),
    };
    const struct CMUnitTest at_switches[] = {CASES("at_switches", WAITS_AT_SWITCHES)};
    if (geteuid() != 0) {
        printf("skipped: BPF needs root\n");
        return 77;
    }
    if (argc > 1 || !can_attach(WAITS_AT_RETURN))
        return cmocka_run_group_tests(at_switches, NULL, NULL);
    return cmocka_run_group_tests(at_return, NULL, NULL);
}
