/* CPU profiling from the kernel to the batch: every case triggers the programs with a child of known shape and asserts
 * the samples and that nothing was lost. Stacks belong to events that the child triggers a known number of times (page
 * faults of one instruction, system calls), so exactly as many stacks arrive. Cases about the clock wait for its next
 * sample. */
#include "rows.h"
#include "subjects.h"
#include "watch.h"
#include "workload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define FIRINGS     10
#define REPLACINGS  1000
#define PATIENCE_NS 60000000000ULL

static void go_deep(void *depth)
{
    frames_recurse((int)(intptr_t)depth, workload_serve);
}

static void go_into_signal(void *flags)
{
    frames_interrupt((int)(intptr_t)flags, workload_serve);
}

static struct workload start_deep(int depth)
{
    return workload_start(go_deep, (void *)(intptr_t)depth);
}

static struct watch_options only(pid_t pid)
{
    struct watch_options options = watch_defaults;

    options.filter.pids[0] = (uint32_t)pid;
    options.filter.pid_count = 1;
    return options;
}

/* The process's unwind tables are loaded before the first event. */
static struct watch watch_walked(const struct workload *child, const char *event, struct loaded_mappings *ret_mappings)
{
    struct watch w = workload_watch(only(child->pid), event);
    struct loaded_mappings loaded;

    assert_true(
        unwind_load_process_mappings(watch_unwind_tables(&w), child->pid, ret_mappings ? ret_mappings : &loaded) > 0);
    return w;
}

/* Expects as many samples as the child calls `work`, each accepted by `check`. */
static void expect_samples(struct workload *child, struct watch *w, void (*work)(unsigned),
                           bool (*check)(const struct record_header *, void *), void *context)
{
    workload_run(child, work, FIRINGS);
    workload_expect(w, FIRINGS, check, context);
    workload_end(child);
    workload_unwatch(w);
}

static void expect_faults(struct workload *child, struct watch w, bool (*check)(const struct record_header *, void *),
                          void *context)
{
    expect_samples(child, &w, workload_fault, check, context);
}

/* User address `i` of a sample: the call site or the interrupted instruction. */
static unsigned long user_address(const struct stack_record *s, size_t i)
{
    __u64 address = s->data[s->kernel_frames + i];

    return address & FRAME_EXACT ? address & ~FRAME_EXACT : address - 1;
}

static size_t count_frames(const struct stack_record *s, enum frames_code code)
{
    size_t n = 0;

    for (size_t i = 0; i < s->user_frames; i++)
        n += (size_t)frames_code_contains(code, user_address(s, i));
    return n;
}

struct expectation {
    pid_t pid;
    size_t depth; /* calls of the recursive function */
};

static bool check_any(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;
    struct expectation *e = context;

    assert_int_equal(header->kind, RECORD_CPU_SAMPLE);
    assert_int_equal(header->pid, e->pid);
    assert_int_equal(header->tid, e->pid);
    assert_int_equal(s->sample.value, 1);
    assert_true(s->cgroup_id > 0);
    assert_true(header->time_ns <= clock_monotonic_ns());
    assert_true(s->flags &
                STACK_RECORD_LEAF_IN_KERNEL); /* older kernels give no kernel frames at a system call's tracepoint */
    return true;
}

static void test_only_the_selected_process_is_sampled(void **state)
{
    struct workload child = workload_start(NULL, NULL);
    struct expectation e = {.pid = child.pid};
    struct watch w = workload_watch(only(child.pid), WORKLOAD_CALL_EVENT);

    (void)state;
    expect_samples(&child, &w, workload_call, check_any, &e);
}

static bool check_clock(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;

    assert_int_equal(header->kind, RECORD_CPU_SAMPLE);
    assert_int_equal(header->pid, *(const pid_t *)context);
    assert_int_equal(s->sample.value, 1000000000 / watch_defaults.sample_hz);
    return true;
}

static void test_cpu_clock_yields_samples(void **state)
{
    pid_t pid = burner_start("burns");
    const struct watch_options options = only(pid);
    struct watch w = watch_begin(&source_cpu, &options);

    (void)state;
    watch_until(&w, 1, check_clock, &pid);
    burner_kill(pid);
    watch_end(&w);
}

static bool check_copied(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;

    (void)context;
    if (!workload_faulted(s))
        return false;
    assert_int_equal(s->user_end, UNWIND_END_NO_PROCESS);
    assert_int_equal(s->user_frames, 1);
    assert_int_equal(s->stop_ip, s->data[s->kernel_frames] & ~FRAME_EXACT);
    assert_true(s->flags & STACK_RECORD_STOP_INTERRUPTED);
    assert_in_range(s->stack_bytes, 50 * 72, STACK_COPY_BYTES);
    return true;
}

/* A process without unwind tables: its stack is copied. */
static void test_stack_is_copied_without_unwind_table(void **state)
{
    struct workload child = start_deep(50);

    (void)state;
    expect_faults(&child, workload_watch(only(child.pid), "page-faults"), check_copied, NULL);
}

/* After the first copy: the address of the second, where a signal found the stack pointer. */
static bool check_both_stacks(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;
    const __u64 *first = s->data + s->kernel_frames + s->user_frames;
    const size_t words = s->stack_bytes / 8;

    (void)context;
    if (!workload_faulted(s))
        return false;
    assert_int_equal(s->user_end, UNWIND_END_NO_PROCESS);
    assert_true(s->flags & STACK_RECORD_SECOND_STACK);
    assert_int_equal(s->stack_skipped_words, 0);
    assert_false(first[words] - s->stop_sp < s->stack_bytes);
    assert_true(header->size_bytes > sizeof(*s) + 8 * (words + 64));
    for (size_t i = 0; i < words; i++)
        if ((first[i] & ~7ULL) == first[words])
            return true;
    fail_msg("the kernel's frame does not name the second stack");
    return false;
}

static void test_both_stacks_of_a_signal_are_copied(void **state)
{
    struct workload child = workload_start(go_into_signal, (void *)(intptr_t)SA_ONSTACK);

    (void)state;
    expect_faults(&child, workload_watch(only(child.pid), "page-faults"), check_both_stacks, NULL);
}

static bool check_deep(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;
    struct expectation *e = context;

    if (!workload_faulted(s))
        return false;
    if (s->user_end != UNWIND_END_ENTRY)
        fail_msg("the walk ended with %u after %u frames", s->user_end, s->user_frames);
    assert_int_equal(s->stack_bytes, 0);
    assert_int_equal(count_frames(s, FRAMES_RECURSE), e->depth);
    return true;
}

static void walk_deep(int depth)
{
    struct workload child = start_deep(depth);
    struct expectation e = {.pid = child.pid, .depth = (size_t)depth};

    expect_faults(&child, watch_walked(&child, "page-faults", NULL), check_deep, &e);
}

static void test_walk_300_frames_without_frame_pointers(void **state)
{
    (void)state;
    walk_deep(300);
}

static void test_walk_900_frames_without_frame_pointers(void **state)
{
    (void)state;
    walk_deep(900);
}

static bool check_too_deep(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;

    (void)context;
    if (!workload_faulted(s))
        return false;
    assert_int_equal(s->user_end, UNWIND_END_TOO_DEEP);
    assert_int_equal(s->user_frames, STACK_MAX_USER_FRAMES);
    return true;
}

static void test_too_deep_stack_is_marked(void **state)
{
    struct workload child = start_deep(1100);

    (void)state;
    expect_faults(&child, watch_walked(&child, "page-faults", NULL), check_too_deep, NULL);
}

static bool check_below_system_call(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;

    (void)context;
    if (s->user_end != UNWIND_END_ENTRY)
        fail_msg("the walk ended with %u after %u frames", s->user_end, s->user_frames);
    assert_true(s->flags & STACK_RECORD_LEAF_IN_KERNEL && s->kernel_frames > 0 && s->user_frames > 2);
    return true;
}

/* In the kernel, user registers come from the top of the kernel stack: at each switch away from the thread. */
static void test_user_stack_is_walked_during_a_system_call(void **state)
{
    struct workload child = workload_start(NULL, NULL);
    struct watch w = watch_walked(&child, "context-switches", NULL);
    const uint64_t switches = threads_switches(child.pid);

    (void)state;
    workload_begin(&child, workload_nap, FIRINGS);
    workload_interrupt(&child, FIRINGS, 0);
    workload_await(&child);
    workload_expect(&w, threads_switches(child.pid) - switches, check_below_system_call, NULL);
    workload_end(&child);
    workload_unwatch(&w);
}

static bool check_signal(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;
    size_t exact = 0;

    (void)context;
    if (!workload_faulted(s))
        return false;
    if (s->user_end != UNWIND_END_ENTRY)
        fail_msg("the walk ended with %u after %u frames", s->user_end, s->user_frames);
    for (size_t i = 1; i < s->user_frames; i++)
        if (s->data[s->kernel_frames + i] & FRAME_EXACT) {
            exact++;
            assert_true(frames_code_contains(FRAMES_INTERRUPTED, user_address(s, i)));
        }
    assert_int_equal(exact, 1);
    return true;
}

static void test_walk_through_a_signal_frame(void **state)
{
    struct workload child = workload_start(go_into_signal, (void *)0);

    (void)state;
    expect_faults(&child, watch_walked(&child, "page-faults", NULL), check_signal, NULL);
}

static bool has_answered(const struct workload *w)
{
    struct pollfd answer = {.fd = w->done, .events = POLLIN};

    return poll(&answer, 1, 0) == 1;
}

/* Waits until replaced or removed tables are freed. Loading a process does that after a delay; it must not be done too
 * often, because each load leaves something to free. */
static void await_table_bytes(struct unwind_tables *tables, uint32_t pid, const struct unwind_mapping *mappings,
                              size_t count, bool removes, size_t max)
{
    const uint64_t end_ns = clock_monotonic_ns() + PATIENCE_NS;

    do {
        usleep(60000);
        assert_int_equal(unwind_tables_put_process(tables, pid, mappings, count, NULL), 0);
        if (removes)
            unwind_tables_remove_process(tables, pid);
        if (clock_monotonic_ns() > end_ns)
            fail_msg("%zu bytes of tables, not %zu", unwind_tables_bytes(tables), max);
    } while (unwind_tables_bytes(tables) > max);
}

/* A process whose mappings change all the time: each walk sees either the old or the new ones, whole. */
static void test_mappings_replaced_while_sampling(void **state)
{
    struct workload child = start_deep(200);
    struct expectation e = {.pid = child.pid, .depth = 200};
    struct loaded_mappings loaded;
    struct watch w = watch_walked(&child, "page-faults", &loaded);
    struct unwind_tables *tables = watch_unwind_tables(&w);
    const size_t bytes = unwind_tables_bytes(tables);

    (void)state;
    workload_begin(&child, workload_fault, REPLACINGS);
    while (!has_answered(&child))
        assert_int_equal(unwind_tables_put_process(tables, (uint32_t)child.pid, loaded.mappings, loaded.count, NULL),
                         0);
    workload_await(&child);
    workload_expect(&w, REPLACINGS, check_deep, &e);
    await_table_bytes(tables, (uint32_t)child.pid, loaded.mappings, loaded.count, false, bytes + 2048);
    workload_end(&child);
    workload_unwatch(&w);
}

/* Memory is released, and entries that do not fit are refused. */
static void test_tables_are_bounded(void **state)
{
    struct watch_options options = watch_defaults;
    struct unwind_tables *tables;
    struct unwind_mapping none = {.start = 4096, .end = 8192, .object = UNWIND_OBJECT_NO_CODE};
    uint32_t objects[64], count = 0;
    _cleanup_free_ void *values = calloc(512, UNWIND_VALUE_BYTES);
    struct watch w;
    int r;

    (void)state;
    options.table_bytes = 4U << 20;
    w = watch_begin(&source_cpu, &options);
    tables = watch_unwind_tables(&w);
    assert_int_equal(unwind_tables_bytes(tables), 0);
    while ((r = unwind_tables_put_object(tables, values, 512, &objects[count])) == 0)
        assert_in_range(++count, 1, 63);
    assert_int_equal(r, -ENOSPC);
    assert_in_range(count, 10, 16);
    assert_int_equal(unwind_tables_put_process(tables, 4711, &none, 1, NULL), 0);
    unwind_tables_remove_process(tables, 4711);
    unwind_tables_remove_process(tables, 4711);
    for (uint32_t i = 0; i < count; i++)
        unwind_tables_remove_object(tables, objects[i]);
    unwind_tables_remove_object(tables, UNWIND_OBJECT_UNKNOWN);
    assert_int_equal(unwind_tables_settle(tables), 0);
    await_table_bytes(tables, 4711, &none, 1, true, 1024); /* of the process removed last */
    assert_int_equal(unwind_tables_put_object(tables, values, 512, &objects[0]), 0);
    watch_end(&w);
}

/* In a child forked for this. */
static void call_in_child(unsigned count)
{
    const pid_t pid = fork();

    if (pid == 0) {
        workload_call(count);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static bool check_child(const struct record_header *header, void *context)
{
    const struct workload *processes = context;

    assert_int_not_equal(header->pid, processes[0].pid);
    assert_int_not_equal(header->pid, processes[1].pid);
    return true;
}

/* Filters apply before anything is written: only samples of the selected processes and of their later children arrive.
 */
static void test_children_are_followed(void **state)
{
    struct workload processes[] = {workload_start(NULL, NULL), workload_start(NULL, NULL)};
    struct watch w = workload_watch(only(processes[0].pid), WORKLOAD_CALL_EVENT);

    (void)state;
    workload_run(&processes[1], workload_call, FIRINGS);
    workload_run(&processes[0], call_in_child, FIRINGS);
    workload_expect(&w, FIRINGS, check_child, processes);
    workload_end(&processes[0]);
    workload_end(&processes[1]);
    workload_unwatch(&w);
}

static bool check_command(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;

    assert_string_equal(s->comm, context);
    return true;
}

static void take_name(void *name)
{
    prctl(PR_SET_NAME, name);
}

static void test_samples_carry_the_current_command(void **state)
{
    struct watch_options options = watch_defaults;
    char name[] = "fifteen-letters", other[] = "another";
    struct workload asked = workload_start(take_name, name), stranger = workload_start(take_name, other);
    struct watch w;

    (void)state;
    memcpy(options.filter.commands[0], name, sizeof(name));
    options.filter.command_count = 1;
    w = workload_watch(options, WORKLOAD_CALL_EVENT);
    workload_run(&stranger, workload_call, FIRINGS);
    workload_run(&asked, workload_call, FIRINGS);
    workload_expect(&w, FIRINGS, check_command, name);
    workload_end(&asked);
    workload_end(&stranger);
    workload_unwatch(&w);
}

static void test_shed_halves_the_rate_and_doubles_the_weight(void **state)
{
    pid_t pid = burner_start("burns");
    const struct watch_options options = only(pid);
    struct watch w = watch_begin(&source_cpu, &options);
    uint64_t weight = 0;

    (void)state;
    assert_int_equal(w.source->shed(w.self, SOURCE_DETAIL_HALF_RATE), 0);
    for (const uint64_t end_ns = clock_monotonic_ns() + PATIENCE_NS; weight != 2 * (1000000000 / options.sample_hz);) {
        assert_true(clock_monotonic_ns() < end_ns);
        usleep(20000);
        assert_int_equal(w.source->drain(w.self, w.batch), 0);
        if (batch_count(w.batch) > 0)
            weight = ((const struct stack_record *)batch_get(w.batch, batch_count(w.batch) - 1))->sample.value;
        batch_clear(w.batch);
    }
    burner_kill(pid);
    w.source->free(w.self);
    batch_free(w.batch);
}

static bool check_on_cpu(const struct record_header *header, void *context)
{
    return ((const struct stack_record *)header)->cpu == *(const unsigned *)context;
}

/* Offline and online again before the source reads the list of CPUs. */
static void test_cpu_hotplug(void **state)
{
    unsigned cpu = (unsigned)sysconf(_SC_NPROCESSORS_CONF) - 1;
    struct watch w;
    cpu_set_t set;
    pid_t pid;

    (void)state;
    if (cpu == 0) {
        print_message("skipped: one CPU only\n");
        skip();
    }
    pid = burner_start("burns");
    const struct watch_options options = only(pid);
    w = watch_begin(&source_cpu, &options);
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    assert_int_equal(sched_setaffinity(pid, sizeof(set), &set), 0);
    watch_until(&w, 1, check_on_cpu, &cpu);
    if (!watch_set_online(cpu, false)) {
        print_message("skipped: CPU %u cannot be switched off here\n", cpu);
    } else {
        assert_true(watch_set_online(cpu, true));
        assert_int_equal(w.source->drain(w.self, w.batch), 0); /* earlier samples */
        batch_clear(w.batch);
        assert_int_equal(sched_setaffinity(pid, sizeof(set), &set), 0); /* it had to move away */
        watch_until(&w, 1, check_on_cpu, &cpu);
    }
    burner_kill(pid);
    watch_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_selected_process_is_sampled),
        cmocka_unit_test(test_cpu_clock_yields_samples),
        cmocka_unit_test(test_stack_is_copied_without_unwind_table),
        cmocka_unit_test(test_both_stacks_of_a_signal_are_copied),
        cmocka_unit_test(test_walk_300_frames_without_frame_pointers),
        cmocka_unit_test(test_walk_900_frames_without_frame_pointers),
        cmocka_unit_test(test_too_deep_stack_is_marked),
        cmocka_unit_test(test_user_stack_is_walked_during_a_system_call),
        cmocka_unit_test(test_walk_through_a_signal_frame),
        cmocka_unit_test(test_mappings_replaced_while_sampling),
        cmocka_unit_test(test_tables_are_bounded),
        cmocka_unit_test(test_children_are_followed),
        cmocka_unit_test(test_samples_carry_the_current_command),
        cmocka_unit_test(test_shed_halves_the_rate_and_doubles_the_weight),
        cmocka_unit_test(test_cpu_hotplug),
    };

    if (geteuid() != 0) {
        printf("skipped: perf events of all CPUs and BPF need root\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
