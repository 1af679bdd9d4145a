/* Which kernel stacks are complete, and which frames are not part of them. */
#include "resolve/kernel/kernel_stack.h"

#include "resolve/kernel/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define FRAME_BYTES 16 /* frame i is at address FRAME_BYTES * (i + 1) */
#define CAPACITY    8

static const struct frame *kernel; /* fake: what kernel_symbols_find finds */

bool kernel_symbols_find(struct kernel_symbols *k, uint64_t address, struct frame *ret)
{
    assert_null(k);
    *ret = kernel[(address + 1) / FRAME_BYTES - 1]; /* return addresses are looked up one byte earlier */
    return true;
}

/* Names a stack of these frames. Returns how many frames of the result are code; sets `*ret_is_whole`. */
static size_t name_stack(unsigned kind, const struct frame *frames, size_t count, struct frame ret[CAPACITY + 1],
                         bool *ret_is_whole)
{
    union {
        struct stack_record record;
        char room[sizeof(struct stack_record) + CAPACITY * sizeof(uint64_t)];
    } r = {.record = {.h.kind = (uint16_t)kind, .kernel_frames = (uint8_t)count}};
    assert_true(count <= CAPACITY);
    kernel = frames;
    for (size_t i = 0; i < count; i++)
        r.record.data[i] = FRAME_BYTES * (i + 1);
    const size_t named = kernel_stack_name(NULL, &r.record, ret, ret_is_whole);
    assert_int_equal(named > 0 && ret[named - 1].kind == FRAME_TRUNCATED, !*ret_is_whole);
    return named - !*ret_is_whole;
}

static bool is_whole(const struct frame *frames, size_t count)
{
    struct frame named[CAPACITY + 1];
    bool whole;
    assert_int_equal(name_stack(RECORD_CPU_SAMPLE, frames, count, named, &whole), count);
    return whole;
}

#define IS_WHOLE(...)                                                                                                  \
    is_whole((struct frame[]){__VA_ARGS__}, sizeof((struct frame[]){__VA_ARGS__}) / sizeof(struct frame))
#define KERNEL(name)                                                                                                   \
    {                                                                                                                  \
        .kind = FRAME_KERNEL, .function = (name)                                                                       \
    }
#define BPF(name)                                                                                                      \
    {                                                                                                                  \
        .kind = FRAME_BPF, .function = (name)                                                                          \
    }

static void test_complete_stacks(void **state)
{
    (void)state;
    assert_true(is_whole(NULL, 0));
    assert_true(IS_WHOLE(KERNEL("asm_exc_page_fault")));
    assert_true(IS_WHOLE(KERNEL("vfs_read"), KERNEL("entry_SYSCALL_64_after_hwframe")));
    assert_true(IS_WHOLE(KERNEL("")));
    /* Where the unwinder has rules. */
    assert_true(
        IS_WHOLE(KERNEL("__x86_indirect_thunk_rax"), KERNEL("vfs_read"), KERNEL("entry_SYSCALL_64_after_hwframe")));
    assert_true(IS_WHOLE(BPF("__x86_indirect_thunk_rax")));
}

static void test_stack_truncated_at_a_retpoline(void **state)
{
    (void)state;
    assert_false(IS_WHOLE(KERNEL("__x86_indirect_thunk_rax")));
    assert_false(IS_WHOLE(KERNEL("__pi___x86_indirect_thunk_r15"), KERNEL("vfs_read")));
    assert_false(IS_WHOLE(KERNEL("__x86_indirect_its_thunk_rax")));
    assert_false(IS_WHOLE(KERNEL("__x86_indirect_call_thunk_rax")));
    /* An interrupt arrived there. */
    assert_false(IS_WHOLE(KERNEL("rcu_core"), KERNEL("handle_softirqs"), KERNEL("asm_sysvec_apic_timer_interrupt"),
                          KERNEL("__x86_indirect_thunk_rax")));
}

static void test_frames_of_the_probe_are_removed(void **state)
{
    (void)state;
    const struct frame frames[] = {BPF("program"), KERNEL("bpf_trace_run4"), KERNEL("__traceiter_sched_switch"),
                                   KERNEL("__schedule"), KERNEL("schedule")};
    struct frame named[CAPACITY + 1];
    bool whole;
    assert_int_equal(name_stack(RECORD_OFF_CPU_STACK, frames, 5, named, &whole), 2);
    assert_string_equal(named[0].function, "__schedule");
    assert_int_equal(named[0].address, 4 * FRAME_BYTES);
    assert_int_equal(name_stack(RECORD_CPU_SAMPLE, frames, 5, named, &whole), 5); /* it samples the program itself */
}

static void test_exec_is_recognized(void **state)
{
    (void)state;
    const struct frame exec[] = {KERNEL("vm_mmap_pgoff"), KERNEL("load_elf_binary.constprop.0"), KERNEL("bprm_execve")};
    assert_true(kernel_stack_is_in_exec(exec, 3));
    assert_false(kernel_stack_is_in_exec(exec, 1));
    const struct frame other[] = {BPF("bprm_execve")};
    assert_false(kernel_stack_is_in_exec(other, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete_stacks),
        cmocka_unit_test(test_stack_truncated_at_a_retpoline),
        cmocka_unit_test(test_frames_of_the_probe_are_removed),
        cmocka_unit_test(test_exec_is_recognized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
