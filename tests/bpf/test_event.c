/* Samples of events other than the clock's: a child triggers a known number of them, and all must be recorded, each
 * with its weight. Only what the kernel counts as missed on the whole node (a program of another recording was running
 * there) may be missing. */
#include "threads.h"
#include "uprobes.h"
#include "watch.h"

#include "sources/attach/sample_event.h"

#include "probes/python.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PAGE       4096UL
#define PAGES      5000
#define CALLS      1000
#define WAITS      50
#define CODE_BYTES 256 /* no function here is longer */

/* ---- workload of the child ---- */

/* The only function that touches this memory; sanitizers must not touch it from elsewhere. */
static __attribute__((noinline, noclone, no_sanitize("address", "undefined"))) void touch(volatile char *memory,
                                                                                          size_t pages)
{
    for (size_t i = 0; i < pages; i++)
        memory[i * PAGE] = 1;
}

static void *new_pages(size_t count)
{
    void *memory = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    madvise(memory, count * PAGE, MADV_NOHUGEPAGE);
    return memory;
}

static long faults_so_far(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

/* Number of faults that the kernel accounts to it. */
static long fault(void)
{
    void *memory = new_pages(PAGES);
    long before, after;

    touch(new_pages(8), 8); /* its own code is resident from here on */
    before = faults_so_far();
    touch(memory, PAGES);
    after = faults_so_far();
    return after - before;
}

static long call(void)
{
    for (int i = 0; i < CALLS; i++)
        syscall(SYS_getppid);
    return CALLS;
}

static long wait_often(void)
{
    for (int i = 0; i < WAITS; i++)
        usleep(100);
    return WAITS;
}

/* In bytes. The kernel rounds up to whole pages; half of the calls fail. */
static long map(void)
{
    for (int i = 0; i < CALLS; i++) {
        void *memory = mmap(NULL, 3 * PAGE + 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        munmap(memory, 4 * PAGE);
        mmap(NULL, 3 * PAGE, PROT_READ, MAP_PRIVATE, -1, 0); /* no file: refused */
    }
    return CALLS * 4 * (long)PAGE;
}

static long grow(void)
{
    unsigned long end = (unsigned long)syscall(SYS_brk, 0), first = (end + PAGE - 1) & ~(PAGE - 1);

    if ((unsigned long)syscall(SYS_brk, first) != first)
        return -1;
    for (int i = 0; i < CALLS / 2; i++) {
        syscall(SYS_brk, first + 5 * PAGE);
        syscall(SYS_brk, 0);
        syscall(SYS_brk, first);            /* shrinks */
        syscall(SYS_brk, (unsigned long)8); /* not a heap address */
    }
    return (long)(first - ((end + PAGE - 1) & ~(PAGE - 1))) + CALLS / 2 * 5 * (long)PAGE;
}

/* Counted up while a tracer is attached. In a section that is part of the file. */
static volatile unsigned short semaphore __attribute__((section(".probes"))) = 0;

static __attribute__((noinline, noclone)) void place(int i)
{
    __asm__ volatile("nop" : : "r"(i) : "memory");
}

static long fire(void)
{
    for (int i = 0; i < CALLS; i++)
        place(i);
    return semaphore == 1 ? CALLS : -semaphore - 1;
}

struct child {
    pid_t pid;
    int go, said;
};

/* Waits until the test starts it, once. */
static struct child child_new(long (*work)(void))
{
    int go[2], said[2];
    struct child c;

    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(said), 0);
    c.pid = fork();
    if (c.pid == 0) {
        char byte;
        long done;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(go[1]);
        if (read(go[0], &byte, 1) != 1)
            _exit(1);
        done = work();
        if (write(said[1], &done, sizeof(done)) != sizeof(done))
            _exit(1);
        if (read(go[0], &byte, 1) == 1) { /* asked for the semaphore */
            done = semaphore;
            (void)!write(said[1], &done, sizeof(done));
        }
        _exit(0);
    }
    close(go[0]);
    close(said[1]);
    c.go = go[1];
    c.said = said[0];
    return c;
}

static long child_ask(struct child *c)
{
    long done = -1;

    assert_int_equal(write(c->go, "", 1), 1);
    assert_int_equal(read(c->said, &done, sizeof(done)), sizeof(done));
    return done;
}

static void child_end(struct child *c)
{
    kill(c->pid, SIGKILL);
    waitpid(c->pid, NULL, 0);
    close(c->go);
    close(c->said);
}

/* ---- recorded events ---- */

struct observed {
    pid_t pid;
    uint64_t events, weight, leaf, missed;
    uint64_t switches;  /* counted by the kernel for the child, from when it was blocked until it was blocked again */
    unsigned long code; /* a function; events whose leaf is in it are counted as `leaf` */
    size_t with_kernel;
};

static void count_samples(struct watch *w, struct observed *observed)
{
    for (size_t i = 0; i < batch_count(w->batch); i++) {
        const struct stack_record *s = (const struct stack_record *)batch_get(w->batch, i);
        unsigned long leaf = s->user_frames ? s->data[s->kernel_frames] & ~FRAME_EXACT : 0;

        if (s->h.kind == RECORD_PYTHON_CODE)
            continue;
        assert_int_equal(s->h.pid, observed->pid);
        observed->events++;
        observed->weight += s->sample.value;
        observed->with_kernel += s->kernel_frames > 0;
        if (observed->code && leaf - observed->code < CODE_BYTES)
            observed->leaf++;
    }
    batch_clear(w->batch);
}

static void drain_all(struct watch *w, struct observed *observed)
{
    do {
        batch_clear(w->batch);
        assert_int_equal(w->source->drain(w->self, w->batch), 0);
        count_samples(w, observed);
        assert_int_equal(w->source->drain(w->self, w->batch), 0);
    } while (batch_count(w->batch) > 0 && (count_samples(w, observed), true));
}

/* Runs the child's work while the event is recorded; the child's own count is returned in `*ret_said`. */
static struct observed record_work(const char *name, uint64_t period, const struct user_probe_site *site,
                                   long (*work)(void), unsigned long code, long *ret_said)
{
    struct watch_options options = watch_defaults;
    struct sample_event event;
    struct child c = child_new(work);
    struct observed observed = {.pid = c.pid, .code = code};
    struct watch w;

    assert_int_equal(sample_event_parse(name, &event), 0);
    if (period)
        event.period = period;
    event.sites = site;
    event.site_count = site != NULL;
    options.event = &event;
    options.ring_bytes = 16U << 20;
    options.filter.pids[0] = (uint32_t)c.pid;
    options.filter.pid_count = 1;
    w = watch_begin(&source_cpu, &options);
    threads_await_blocked(c.pid, SYS_read);
    const uint64_t switches = threads_switches(c.pid);
    *ret_said = child_ask(&c);
    threads_await_blocked(c.pid, SYS_read);
    observed.switches = threads_switches(c.pid) - switches;
    assert_int_equal(w.source->stop(w.self), 0);
    drain_all(&w, &observed);
    struct losses losses = watch_losses(&w);
    observed.missed = losses.count[LOSS_MISSED];
    losses.count[LOSS_MISSED] = 0;
    for (int i = 0; i < LOSS_COUNT; i++)
        if (losses.count[i])
            fail_msg("lost: %llu %s", (unsigned long long)losses.count[i], loss_name((enum loss_reason)i));
    w.source->free(w.self);
    batch_free(w.batch);
    child_end(&c);
    return observed;
}

/* Asserts that all events were recorded; any that the kernel missed may have been one of them. */
static void assert_all(uint64_t observed, uint64_t done, uint64_t missed)
{
    assert_in_range(observed, missed < done ? done - missed : 0, done);
}

/* ---- cases ---- */

static void assert_each_fault_is_recorded(const char *name)
{
    long faults;
    struct observed observed = record_work(name, 0, NULL, fault, (unsigned long)touch, &faults);

    assert_true(faults >= PAGES);
    assert_all(observed.leaf, PAGES + 8, observed.missed); /* the leaf is the touching function, for every sample */
    assert_int_equal(observed.weight, observed.events);
}

static void test_each_page_fault_is_recorded(void **state)
{
    (void)state;
    assert_each_fault_is_recorded("page-faults");
}

static void test_each_minor_fault_is_recorded(void **state)
{
    (void)state;
    assert_each_fault_is_recorded("minor-faults");
}

/* The kernel counts to the period on each CPU, whatever task faults there. */
static struct observed sample_faults_in_fifty(void)
{
    long faults;
    const struct observed observed = record_work("page-faults", 50, NULL, fault, 0, &faults);

    assert_int_equal(observed.weight, 50 * observed.events);
    return observed;
}

static void test_sample_weight_is_the_period(void **state)
{
    (void)state;
    sample_faults_in_fifty();
}

/* The sum is exact except for the remainder and faults of other tasks on that CPU; part of the suite bpf-statistical.
 */
static void test_weights_of_sampled_faults_sum_to_the_total(void **state)
{
    (void)state;
    assert_in_range(sample_faults_in_fifty().weight, PAGES / 2, 2 * PAGES);
}

static void test_each_context_switch_is_recorded(void **state)
{
    long waits;
    struct observed observed = record_work("context-switches", 0, NULL, wait_often, 0, &waits);

    (void)state;
    assert_all(observed.events, observed.switches, observed.missed);
    assert_int_equal(observed.weight, observed.events);
    assert_int_equal(observed.with_kernel, observed.events);
}

static void test_each_tracepoint_hit_is_recorded(void **state)
{
    long calls;
    struct observed observed = record_work("tracepoint:syscalls:sys_enter_getppid", 0, NULL, call, 0, &calls);

    (void)state;
    assert_all(observed.events, CALLS, observed.missed);
    assert_int_equal(observed.weight, observed.events);
}

/* Counted after the filters, per CPU. */
static void test_tracepoint_period_is_the_weight(void **state)
{
    long calls;
    struct observed observed = record_work("tracepoint:syscalls:sys_enter_getppid", 7, NULL, call, 0, &calls);
    uint64_t left = 7 * (uint64_t)sysconf(_SC_NPROCESSORS_CONF) + observed.missed;

    (void)state;
    assert_int_equal(observed.weight, 7 * observed.events);
    assert_in_range(observed.weight, CALLS > left ? CALLS - left : 7, CALLS);
}

static void test_mmap_bytes_are_recorded(void **state)
{
    long bytes;
    struct observed observed = record_work("mmap", 0, NULL, map, 0, &bytes);

    (void)state;
    assert_all(observed.weight, (uint64_t)bytes, 4 * PAGE * observed.missed);
    assert_all(observed.events, CALLS, observed.missed);
}

static void test_brk_bytes_are_recorded(void **state)
{
    long bytes;
    struct observed observed = record_work("brk", 0, NULL, grow, 0, &bytes);

    (void)state;
    assert_true(bytes > 0);
    assert_all(observed.weight, (uint64_t)bytes, 5 * PAGE * observed.missed);
}

static struct user_probe_site site_of_this(void)
{
    return (struct user_probe_site){.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
                                    .file_offset = uprobes_file_offset((const void *)place),
                                    .semaphore_offset = uprobes_file_offset((const void *)&semaphore)};
}

static void test_each_usdt_firing_is_recorded_and_raises_the_semaphore(void **state)
{
    struct user_probe_site site = site_of_this();
    long fired;
    struct observed observed = record_work("usdt:some:place", 0, &site, fire, (unsigned long)place, &fired);

    (void)state;
    assert_int_equal(fired, CALLS); /* fired only if it saw its semaphore at 1 */
    assert_all(observed.events, CALLS, observed.missed);
    assert_int_equal(observed.leaf, observed.events);
    assert_int_equal(observed.with_kernel, 0);
    close(site.fd);
}

/* When the recorder is killed, no process keeps the probe attached. */
static void test_killing_the_recorder_lowers_the_semaphore(void **state)
{
    struct user_probe_site site = site_of_this();
    struct watch_options options = watch_defaults;
    struct sample_event event;
    int ready[2];
    char byte;
    pid_t recorder;

    (void)state;
    assert_int_equal(sample_event_parse("usdt:some:place", &event), 0);
    event.sites = &site;
    event.site_count = 1;
    options.event = &event;
    assert_int_equal(pipe(ready), 0);
    recorder = fork();
    if (recorder == 0) {
        (void)watch_begin(&source_cpu, &options);
        (void)!write(ready[1], "", 1);
        pause();
        _exit(0);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(semaphore, 1);
    kill(recorder, SIGKILL);
    waitpid(recorder, NULL, 0);
    for (int i = 0; semaphore != 0; i++) {
        assert_in_range(i, 0, 3000);
        usleep(10000);
    }
    close(ready[0]);
    close(site.fd);
}

static void test_attach_failure_is_explained(void **state)
{
    struct watch_options options = watch_defaults;
    struct attach_report report = {0};
    struct sample_event event;
    void *self;

    (void)state;
    assert_int_equal(sample_event_parse("tracepoint:sched:no_such_thing", &event), 0);
    options.event = &event;
    struct shared_tables *tables = watch_tables(&options, false);
    const struct source_services services = watch_services(&options, tables);
    assert_int_equal(source_cpu.open(&services, NULL, &report, &self), -ENOENT);
    shared_tables_free(tables);
    assert_false(report.entries[0].attached);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_page_fault_is_recorded),
        cmocka_unit_test(test_each_minor_fault_is_recorded),
        cmocka_unit_test(test_sample_weight_is_the_period),
        cmocka_unit_test(test_each_context_switch_is_recorded),
        cmocka_unit_test(test_each_tracepoint_hit_is_recorded),
        cmocka_unit_test(test_tracepoint_period_is_the_weight),
        cmocka_unit_test(test_mmap_bytes_are_recorded),
        cmocka_unit_test(test_brk_bytes_are_recorded),
        cmocka_unit_test(test_each_usdt_firing_is_recorded_and_raises_the_semaphore),
        cmocka_unit_test(test_killing_the_recorder_lowers_the_semaphore),
        cmocka_unit_test(test_attach_failure_is_explained),
    };

    const struct CMUnitTest statistical[] = {cmocka_unit_test(test_weights_of_sampled_faults_sum_to_the_total)};

    if (argc > 1 && strcmp(argv[1], "statistical") == 0)
        return cmocka_run_group_tests_name("event", statistical, NULL, NULL);
    return cmocka_run_group_tests_name("event", tests, NULL, NULL);
}
