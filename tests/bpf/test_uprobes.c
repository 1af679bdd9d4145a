/* Stacks of processes with uprobes. The kernel has replaced the return address of a function with a uretprobe by the
 * address of its trampoline, and executes an instruction with a uprobe elsewhere; each stack must be the same as
 * without the probe. */
#include "rows.h"
#include "subjects.h"
#include "uprobes.h"
#include "watch.h"
#include "workload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>

#define FIRINGS 10

struct expectation {
    enum frames_code code; /* of the function with the uretprobe */
    size_t frames;         /* return addresses, and the leaf, in that code */
};

static void go_deep(void *depth)
{
    frames_recurse((int)(intptr_t)depth, workload_serve);
}

static void go_into_signal(void *flags)
{
    frames_interrupt((int)(intptr_t)flags, workload_serve);
}

/* The kernel has mapped its trampoline into the process: the probe was hit. */
static bool has_trampoline(pid_t pid)
{
    char path[64], line[512];
    bool found = false;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    assert_non_null(maps);
    while (!found && fgets(line, sizeof(line), maps))
        found = strstr(line, "[uprobes]");
    fclose(maps);
    return found;
}

/* Has a child enter a function with a uretprobe and fault below it; each fault is a stack for `check`. */
static void expect_faults(void (*enter)(void *), void *argument, bool has_tables,
                          bool (*check)(const struct record_header *, void *), struct expectation *e)
{
    struct watch_options options = watch_defaults;
    const int probe = uprobes_attach(frames_code_start(e->code), true);
    struct workload child = workload_start(enter, argument);

    options.filter.pids[0] = (uint32_t)child.pid;
    options.filter.pid_count = 1;
    struct watch w = workload_watch(options, "page-faults");
    if (has_tables)
        assert_true(unwind_load_process(watch_unwind_tables(&w), child.pid) > 0);
    assert_true(has_trampoline(child.pid));
    workload_run(&child, workload_fault, FIRINGS);
    workload_expect(&w, FIRINGS, check, e);
    workload_end(&child);
    workload_unwatch(&w);
    close(probe);
}

static bool check_walked(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;
    const struct expectation *e = context;
    size_t frames = 0;

    if (!workload_faulted(s))
        return false;
    if (s->user_end != UNWIND_END_ENTRY)
        fail_msg("the walk ended with %u after %u frames", s->user_end, s->user_frames);
    for (size_t i = 0; i < s->user_frames; i++)
        frames += (size_t)frames_code_contains(e->code, s->data[s->kernel_frames + i] & ~FRAME_EXACT);
    assert_int_equal(frames, e->frames);
    return true;
}

/* Each call of the function has a pending return, except those deeper than the kernel's limit of 64. */
static void test_walk_through_nested_uretprobes(void **state)
{
    struct expectation e = {.code = FRAMES_RECURSE, .frames = 100};

    (void)state;
    expect_faults(go_deep, (void *)(intptr_t)e.frames, true, check_walked, &e);
}

static void test_walk_through_a_signal_that_interrupted_a_function_with_a_uretprobe(void **state)
{
    struct expectation e = {.code = FRAMES_INTERRUPTED, .frames = 1};

    (void)state;
    expect_faults(go_into_signal, (void *)0, true, check_walked, &e);
}

static bool check_fault(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;
    uint64_t *leaf = context;

    if (!workload_faulted(s))
        return false;
    assert_int_equal(s->user_end, UNWIND_END_ENTRY);
    if (*leaf)
        assert_int_equal(s->data[s->kernel_frames], *leaf);
    *leaf = s->data[s->kernel_frames];
    return true;
}

/* The kernel executes the instruction elsewhere. */
static void test_walk_from_an_instruction_with_a_uprobe(void **state)
{
    struct watch_options options = watch_defaults;
    struct workload child = workload_start(NULL, NULL);
    uint64_t leaf = 0;

    (void)state;
    options.filter.pids[0] = (uint32_t)child.pid;
    options.filter.pid_count = 1;
    struct watch w = workload_watch(options, "page-faults");
    assert_true(unwind_load_process(watch_unwind_tables(&w), child.pid) > 0);
    workload_run(&child, workload_fault, 1);
    workload_expect(&w, 1, check_fault, &leaf);
    const int probe = uprobes_attach((const void *)(leaf & ~FRAME_EXACT), false);
    workload_run(&child, workload_fault, 1); /* reads the page of code that the kernel has replaced */
    assert_int_equal(w.source->start(w.self), 0);
    workload_run(&child, workload_fault, FIRINGS);
    workload_expect(&w, FIRINGS, check_fault, &leaf);
    assert_true(has_trampoline(child.pid));
    workload_end(&child);
    workload_unwatch(&w);
    close(probe);
}

#if defined(__x86_64__)
static bool check_copied(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;
    const __u64 *words = s->data + s->kernel_frames + s->user_frames;
    const struct expectation *e = context;
    size_t frames = 0;

    if (!workload_faulted(s))
        return false;
    assert_int_equal(s->user_end, UNWIND_END_NO_PROCESS);
    for (const __u64 *word = words; (const char *)word < (const char *)s + header->size_bytes; word++)
        frames += (size_t)frames_code_contains(e->code, *word);
    assert_true(frames >= e->frames);
    return true;
}

/* Without unwind tables the stack is copied, and unwound in user space. The outermost call of the function does not
 * return into its code. */
static void test_copied_stack_has_the_true_return_addresses(void **state)
{
    struct expectation e = {.code = FRAMES_RECURSE, .frames = 49};

    (void)state;
    expect_faults(go_deep, (void *)(intptr_t)50, false, check_copied, &e);
}

static void interrupt_on_another_stack(void)
{
    frames_interrupt(SA_ONSTACK, workload_serve);
}

static void go_deep_into_signal(void *depth)
{
    frames_recurse((int)(intptr_t)depth, interrupt_on_another_stack);
}

static void test_both_copied_stacks_of_a_signal_have_the_true_return_addresses(void **state)
{
    struct expectation e = {.code = FRAMES_RECURSE, .frames = 49};

    (void)state;
    expect_faults(go_deep_into_signal, (void *)(intptr_t)50, false, check_copied, &e);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk_through_nested_uretprobes),
        cmocka_unit_test(test_walk_through_a_signal_that_interrupted_a_function_with_a_uretprobe),
        cmocka_unit_test(test_walk_from_an_instruction_with_a_uprobe),
#if defined(__x86_64__)
        cmocka_unit_test(test_copied_stack_has_the_true_return_addresses),
        cmocka_unit_test(test_both_copied_stacks_of_a_signal_have_the_true_return_addresses),
#endif
    };

    if (geteuid() != 0) {
        printf("skipped: perf events of all CPUs and BPF need root\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
