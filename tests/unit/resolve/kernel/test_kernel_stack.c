/* Which kernel stacks are complete. */
#include "resolve/kernel/kernel_stack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define FRAMES(...)                                                                                                    \
    kernel_stack_cut((struct frame[]){__VA_ARGS__}, sizeof((struct frame[]){__VA_ARGS__}) / sizeof(struct frame))
#define KERNEL(name)                                                                                                   \
    {                                                                                                                  \
        .kind = FRAME_KERNEL, .function = (name)                                                                       \
    }

static void test_complete_stacks(void **state)
{
    (void)state;
    assert_null(kernel_stack_cut(NULL, 0));
    assert_null(FRAMES(KERNEL("asm_exc_page_fault")));
    assert_null(FRAMES(KERNEL("vfs_read"), KERNEL("entry_SYSCALL_64_after_hwframe")));
    assert_null(FRAMES(KERNEL("")));
    /* Where the unwinder has rules. */
    assert_null(
        FRAMES(KERNEL("__x86_indirect_thunk_rax"), KERNEL("vfs_read"), KERNEL("entry_SYSCALL_64_after_hwframe")));
    assert_null(FRAMES({.kind = FRAME_BPF, .function = "__x86_indirect_thunk_rax"}));
}

static void test_stack_truncated_at_a_retpoline(void **state)
{
    (void)state;
    assert_non_null(FRAMES(KERNEL("__x86_indirect_thunk_rax")));
    assert_non_null(FRAMES(KERNEL("__pi___x86_indirect_thunk_r15"), KERNEL("vfs_read")));
    assert_non_null(FRAMES(KERNEL("__x86_indirect_its_thunk_rax")));
    assert_non_null(FRAMES(KERNEL("__x86_indirect_call_thunk_rax")));
    /* An interrupt arrived there. */
    assert_non_null(FRAMES(KERNEL("rcu_core"), KERNEL("handle_softirqs"), KERNEL("asm_sysvec_apic_timer_interrupt"),
                           KERNEL("__x86_indirect_thunk_rax")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete_stacks),
        cmocka_unit_test(test_stack_truncated_at_a_retpoline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
