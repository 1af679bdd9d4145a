/* CPU profiling from the kernel to the batch: every case provokes the programs with a child of a known shape
 * and asserts what comes out and that nothing was lost. Waits for enough samples and not for a time, so that
 * a slow machine is only slower. */
#include "rows.h"
#include "subjects.h"
#include "watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

/* A watch of one process alone, whose rows the kernel half has; what was sampled before it had them is let
 * go. */
static struct watch watch_walked(struct source_options options, pid_t pid, struct rows *ret_rows)
{
    struct unwind_tables *tables;
    struct watch w;

    options.pids[0] = (uint32_t)pid;
    options.pid_count = 1;
    w = watch_begin(&source_cpu, &options);
    tables = cpu_source_unwind_tables(w.self);
    assert_true(
        (ret_rows ? rows_put_process_and_tell(tables, pid, ret_rows) : rows_put_process(tables, pid)) > 0);
    assert_int_equal(w.source->drain(w.self, w.batch), 0);
    batch_clear(w.batch);
    return w;
}

/* The user address `i` of a sample: where the call or the interrupted instruction is. */
static unsigned long user_address(const struct cpu_sample *s, size_t i)
{
    __u64 address = s->data[s->kernel_frames + i];

    return address & CPU_FRAME_EXACT ? address & ~CPU_FRAME_EXACT : address - 1;
}

static size_t count_frames(const struct cpu_sample *s, enum subject_code code)
{
    size_t n = 0;

    for (size_t i = 0; i < s->user_frames; i++)
        n += (size_t)subject_code_holds(code, user_address(s, i));
    return n;
}

struct expectation {
    pid_t pid;
    size_t depth; /* calls of the recursive function */
    size_t kernel_samples;
    const char *name;
};

static bool look_any(const struct wire_header *header, void *context)
{
    const struct cpu_sample *s = (const struct cpu_sample *)header;
    struct expectation *e = context;

    assert_int_equal(header->kind, WIRE_CPU_SAMPLE);
    assert_int_equal(header->pid, e->pid);
    assert_int_equal(header->tid, e->pid);
    assert_int_equal(s->weight_ns, 1000000000 / watch_defaults.sample_hz);
    assert_true(s->cgroup_id > 0);
    assert_true(header->time_ns <= clock_monotonic_ns());
    e->kernel_samples += s->kernel_frames > 0 && s->flags & CPU_SAMPLE_LEAF_IN_KERNEL;
    return true;
}

static void test_samples_of_one_process(void **state)
{
    struct source_options options = watch_defaults;
    struct expectation e = {.pid = subject_syscalls()};
    struct watch w;

    (void)state;
    options.pids[0] = (uint32_t)e.pid;
    options.pid_count = 1;
    w = watch_begin(&source_cpu, &options);
    watch_until(&w, ENOUGH, look_any, &e);
    assert_true(e.kernel_samples > 0);
    subject_kill(e.pid);
    watch_end(&w);
}

static bool look_copied(const struct wire_header *header, void *context)
{
    const struct cpu_sample *s = (const struct cpu_sample *)header;

    (void)context;
    assert_int_equal(s->user_end, UNWIND_END_NO_PROCESS);
    assert_int_equal(s->user_frames, 1);
    assert_int_equal(s->stop_ip, s->data[s->kernel_frames] & ~CPU_FRAME_EXACT);
    assert_true(s->flags & CPU_SAMPLE_STOP_INTERRUPTED);
    assert_in_range(s->stack_bytes, 50 * 72, CPU_STACK_COPY_BYTES);
    return true;
}

/* A process that the tables do not know: its stack comes along. */
static void test_stack_is_copied_without_rows(void **state)
{
    struct source_options options = watch_defaults;
    pid_t pid = subject_deep(50);
    struct watch w;

    (void)state;
    usleep(50000);
    options.pids[0] = (uint32_t)pid;
    options.pid_count = 1;
    w = watch_begin(&source_cpu, &options);
    watch_until(&w, ENOUGH, look_copied, NULL);
    subject_kill(pid);
    watch_end(&w);
}

/* After the first copy: the second one's address, which is where a signal found the stack pointer. */
static bool look_at_both_stacks(const struct wire_header *header, void *context)
{
    const struct cpu_sample *s = (const struct cpu_sample *)header;
    const __u64 *first = s->data + s->kernel_frames + s->user_frames;
    const size_t words = s->stack_bytes / 8;

    (void)context;
    assert_int_equal(s->user_end, UNWIND_END_NO_PROCESS);
    assert_true(s->flags & CPU_SAMPLE_SECOND_STACK);
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
    struct source_options options = watch_defaults;
    pid_t pid = subject_signal(SA_ONSTACK);
    struct watch w;

    (void)state;
    usleep(200000); /* in its handler */
    options.pids[0] = (uint32_t)pid;
    options.pid_count = 1;
    w = watch_begin(&source_cpu, &options);
    watch_until(&w, ENOUGH, look_at_both_stacks, NULL);
    subject_kill(pid);
    watch_end(&w);
}

static bool look_deep(const struct wire_header *header, void *context)
{
    const struct cpu_sample *s = (const struct cpu_sample *)header;
    struct expectation *e = context;

    if (s->user_end != UNWIND_END_ENTRY)
        fail_msg("the walk ended with %u after %u frames", s->user_end, s->user_frames);
    assert_int_equal(s->stack_bytes, 0);
    assert_int_equal(count_frames(s, SUBJECT_RECURSE), e->depth);
    return true;
}

static void walk_deep(int depth)
{
    struct expectation e = {.pid = subject_deep(depth), .depth = (size_t)depth};
    struct watch w;

    usleep(100000); /* at the bottom of its recursion */
    w = watch_walked(watch_defaults, e.pid, NULL);
    watch_until(&w, ENOUGH, look_deep, &e);
    subject_kill(e.pid);
    watch_end(&w);
}

static void test_300_frames_without_frame_pointers(void **state)
{
    (void)state;
    walk_deep(300);
}

static void test_900_frames_without_frame_pointers(void **state)
{
    (void)state;
    walk_deep(900);
}

static bool look_too_deep(const struct wire_header *header, void *context)
{
    const struct cpu_sample *s = (const struct cpu_sample *)header;

    (void)context;
    assert_int_equal(s->user_end, UNWIND_END_TOO_DEEP);
    assert_int_equal(s->user_frames, CPU_MAX_USER_FRAMES);
    return true;
}

static void test_a_stack_too_deep_says_so(void **state)
{
    pid_t pid = subject_deep(1100);
    struct watch w;

    (void)state;
    usleep(100000);
    w = watch_walked(watch_defaults, pid, NULL);
    watch_until(&w, ENOUGH, look_too_deep, NULL);
    subject_kill(pid);
    watch_end(&w);
}

static bool look_below_system_call(const struct wire_header *header, void *context)
{
    const struct cpu_sample *s = (const struct cpu_sample *)header;

    (void)context;
    if (s->user_end != UNWIND_END_ENTRY)
        fail_msg("the walk ended with %u after %u frames", s->user_end, s->user_frames);
    return s->flags & CPU_SAMPLE_LEAF_IN_KERNEL && s->kernel_frames > 0 && s->user_frames > 2;
}

/* In the kernel, the user registers come from the top of the kernel stack. */
static void test_user_stack_below_a_system_call(void **state)
{
    pid_t pid = subject_syscalls();
    struct watch w;

    (void)state;
    usleep(100000);
    w = watch_walked(watch_defaults, pid, NULL);
    watch_until(&w, ENOUGH, look_below_system_call, NULL);
    subject_kill(pid);
    watch_end(&w);
}

static bool look_signal(const struct wire_header *header, void *context)
{
    const struct cpu_sample *s = (const struct cpu_sample *)header;
    size_t exact = 0;

    (void)context;
    if (s->user_end != UNWIND_END_ENTRY)
        fail_msg("the walk ended with %u after %u frames", s->user_end, s->user_frames);
    for (size_t i = 1; i < s->user_frames; i++)
        if (s->data[s->kernel_frames + i] & CPU_FRAME_EXACT) {
            exact++;
            assert_true(subject_code_holds(SUBJECT_INTERRUPTED, user_address(s, i)));
        }
    assert_int_equal(exact, 1);
    return true;
}

static void test_through_a_signal_frame(void **state)
{
    pid_t pid = subject_signal(0);
    struct watch w;

    (void)state;
    usleep(200000); /* in its handler */
    w = watch_walked(watch_defaults, pid, NULL);
    watch_until(&w, ENOUGH, look_signal, NULL);
    subject_kill(pid);
    watch_end(&w);
}

/* A process whose mappings change all the time: each walk sees the old ones or the new ones, whole. */
static void test_mappings_replaced_under_samples(void **state)
{
    struct source_options options = watch_defaults;
    struct expectation e = {.pid = subject_deep(200), .depth = 200};
    struct unwind_tables *tables;
    size_t samples = 0, bytes;
    struct rows rows;
    struct watch w;

    (void)state;
    usleep(100000);
    options.sample_hz = 999;
    w = watch_walked(options, e.pid, &rows);
    tables = cpu_source_unwind_tables(w.self);
    bytes = unwind_tables_bytes(tables);
    while (samples < 200) {
        for (int i = 0; i < 1000; i++)
            assert_int_equal(unwind_tables_put_process(tables, (uint32_t)e.pid, rows.mappings, rows.count, NULL),
                             0);
        assert_int_equal(w.source->drain(w.self, w.batch), 0);
        for (size_t i = 0; i < batch_count(w.batch); i++)
            samples += look_deep(batch_get(w.batch, i), &e);
        batch_clear(w.batch);
    }
    usleep(100000); /* what was replaced is taken out after a while */
    assert_int_equal(unwind_tables_put_process(tables, (uint32_t)e.pid, rows.mappings, rows.count, NULL), 0);
    assert_in_range(unwind_tables_bytes(tables), bytes, bytes + 2048);
    subject_kill(e.pid);
    watch_end(&w);
}

/* Memory comes back, and what does not fit is refused. */
static void test_tables_are_bounded(void **state)
{
    struct source_options options = watch_defaults;
    struct unwind_tables *tables;
    struct unwind_mapping none = {.start = 4096, .end = 8192, .object = UNWIND_OBJECT_NO_CODE};
    uint32_t objects[64], count = 0;
    _cleanup_free_ void *values = calloc(512, UNWIND_VALUE_BYTES);
    struct watch w;
    int r;

    (void)state;
    options.table_bytes = 4U << 20;
    w = watch_begin(&source_cpu, &options);
    tables = cpu_source_unwind_tables(w.self);
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
    usleep(100000);
    assert_int_equal(unwind_tables_put_process(tables, 4711, &none, 1, NULL), 0);
    unwind_tables_remove_process(tables, 4711);
    assert_in_range(unwind_tables_bytes(tables), 0, 1024); /* of the process removed last */
    assert_int_equal(unwind_tables_put_object(tables, values, 512, &objects[0]), 0);
    watch_end(&w);
}

static bool look_not(const struct wire_header *header, void *context)
{
    assert_int_not_equal(header->pid, *(const pid_t *)context);
    return true;
}

/* Filters act before anything is written: only those asked for come, and their children who are born later.
 */
static void test_children_are_followed(void **state)
{
    struct source_options options = watch_defaults;
    pid_t stranger = subject_deep(1), parent;
    struct watch w;
    int go;

    (void)state;
    parent = subject_family(&go);
    options.pids[0] = (uint32_t)parent;
    options.pid_count = 1;
    w = watch_begin(&source_cpu, &options);
    assert_int_equal(write(go, "", 1), 1);
    watch_until(&w, ENOUGH, look_not, &stranger);
    close(go);
    subject_kill(parent); /* the grandchild dies with it */
    subject_kill(stranger);
    watch_end(&w);
}

static bool look_command(const struct wire_header *header, void *context)
{
    const struct cpu_sample *s = (const struct cpu_sample *)header;

    assert_string_equal(s->comm, context);
    return true;
}

static void test_commands(void **state)
{
    struct source_options options = watch_defaults;
    char name[] = "fifteen-letters";
    pid_t pid = subject_named(name), stranger = subject_named("another");
    struct watch w;

    (void)state;
    memcpy(options.commands[0], name, sizeof(name));
    options.command_count = 1;
    w = watch_begin(&source_cpu, &options);
    watch_until(&w, ENOUGH, look_command, name);
    subject_kill(pid);
    subject_kill(stranger);
    watch_end(&w);
}

static void test_shed_halves_the_rate_and_doubles_the_weight(void **state)
{
    struct source_options options = watch_defaults;
    pid_t pid = subject_deep(1);
    struct watch w;
    uint64_t weight = 0;

    (void)state;
    options.pids[0] = (uint32_t)pid;
    options.pid_count = 1;
    w = watch_begin(&source_cpu, &options);
    assert_int_equal(w.source->shed(w.self, SOURCE_DETAIL_HALF), 0);
    while (weight != 2 * (1000000000 / options.sample_hz)) {
        usleep(20000);
        assert_int_equal(w.source->drain(w.self, w.batch), 0);
        if (batch_count(w.batch) > 0)
            weight = ((const struct cpu_sample *)batch_get(w.batch, batch_count(w.batch) - 1))->weight_ns;
        batch_clear(w.batch);
    }
    subject_kill(pid);
    w.source->free(w.self);
    batch_free(w.batch);
}

static bool look_on_cpu(const struct wire_header *header, void *context)
{
    return ((const struct cpu_sample *)header)->cpu == *(const unsigned *)context;
}

/* Gone and back before anybody looks at the list of CPUs. */
static void test_a_cpu_goes_and_comes(void **state)
{
    struct source_options options = watch_defaults;
    unsigned cpu = (unsigned)sysconf(_SC_NPROCESSORS_CONF) - 1;
    struct watch w;
    cpu_set_t set;
    pid_t pid;

    (void)state;
    if (cpu == 0) {
        print_message("skipped: one CPU only\n");
        skip();
    }
    pid = subject_deep(1);
    options.pids[0] = (uint32_t)pid;
    options.pid_count = 1;
    w = watch_begin(&source_cpu, &options);
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    assert_int_equal(sched_setaffinity(pid, sizeof(set), &set), 0);
    watch_until(&w, ENOUGH, look_on_cpu, &cpu);
    if (!watch_set_online(cpu, false)) {
        print_message("skipped: CPU %u cannot be switched off here\n", cpu);
    } else {
        assert_true(watch_set_online(cpu, true));
        assert_int_equal(sched_setaffinity(pid, sizeof(set), &set), 0); /* it had to leave */
        watch_until(&w, 2 * ENOUGH, look_on_cpu, &cpu);
    }
    subject_kill(pid);
    watch_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_of_one_process),
        cmocka_unit_test(test_stack_is_copied_without_rows),
        cmocka_unit_test(test_both_stacks_of_a_signal_are_copied),
        cmocka_unit_test(test_300_frames_without_frame_pointers),
        cmocka_unit_test(test_900_frames_without_frame_pointers),
        cmocka_unit_test(test_a_stack_too_deep_says_so),
        cmocka_unit_test(test_user_stack_below_a_system_call),
        cmocka_unit_test(test_through_a_signal_frame),
        cmocka_unit_test(test_mappings_replaced_under_samples),
        cmocka_unit_test(test_tables_are_bounded),
        cmocka_unit_test(test_children_are_followed),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_shed_halves_the_rate_and_doubles_the_weight),
        cmocka_unit_test(test_a_cpu_goes_and_comes),
    };

    if (geteuid() != 0) {
        printf("skipped: perf events of all CPUs and BPF need root\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
