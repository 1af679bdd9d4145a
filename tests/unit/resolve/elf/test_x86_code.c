/* x86_code.c on single instructions, as compilers emit them. */
#include "resolve/elf/x86_code.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ADDRESS 0x1000

struct expected {
    uint8_t code[12];
    struct x86_instruction is;
};

static void check(const struct expected *e)
{
    struct x86_instruction i;
    assert_true(x86_decode(e->code, sizeof(e->code), ADDRESS, &i));
    assert_int_equal(i.bytes, e->is.bytes);
    assert_int_equal(i.kind, e->is.kind);
    assert_int_equal(i.is_emulated, e->is.is_emulated);
    assert_int_equal(i.keeps_arguments, e->is.keeps_arguments);
    assert_int_equal(i.target, e->is.target);
    for (size_t size = 0; size < e->is.bytes; size++) /* cut off */
        assert_false(x86_decode(e->code, size, ADDRESS, &i));
}

static void test_emulated_instructions(void **state)
{
    static const struct expected all[] = {
        {{0x55}, {1, X86_PUSH, true, false, 0}},
        {{0x41, 0x57}, {2, X86_PUSH, true, false, 0}},
        {{0x90}, {1, X86_NOP, true, false, 0}},
        {{0xe8, 0x10, 0, 0, 0}, {5, X86_CALL, true, false, ADDRESS + 0x15}},
        {{0xe9, 0xf0, 0xff, 0xff, 0xff}, {5, X86_JUMP, true, false, ADDRESS - 0xb}},
        {{0xeb, 0xfe}, {2, X86_JUMP, true, false, ADDRESS}},
        {{0x7e, 0x10}, {2, X86_BRANCH, true, false, ADDRESS + 0x12}},
        {{0x0f, 0x8e, 0x10, 0, 0, 0}, {6, X86_BRANCH, true, false, ADDRESS + 0x16}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        check(&all[i]);
}

static void test_single_stepped_instructions(void **state)
{
    static const struct expected all[] = {
        {{0xf3, 0x0f, 0x1e, 0xfa}, {4, X86_ENDBR, false, true, 0}},
        {{0x48, 0x83, 0xec, 0x18}, {4, X86_OTHER, false, true, 0}},                      /* sub $24,%rsp */
        {{0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0}, {9, X86_OTHER, false, true, 0}}, /* mov %fs:40,%rax */
        {{0x48, 0x89, 0x44, 0x24, 0x08}, {5, X86_OTHER, false, true, 0}},                /* mov %rax,8(%rsp) */
        {{0x31, 0xc0}, {2, X86_OTHER, false, true, 0}},                                  /* xor %eax,%eax */
        {{0x85, 0xd2}, {2, X86_OTHER, false, true, 0}},                                  /* test %edx,%edx */
        {{0x31, 0xd2}, {2, X86_OTHER, false, false, 0}},                                 /* xor %edx,%edx */
        {{0x48, 0x89, 0xc7}, {3, X86_OTHER, false, false, 0}},                           /* mov %rax,%rdi */
        {{0x49, 0x89, 0xff}, {3, X86_OTHER, false, true, 0}},                            /* mov %rdi,%r15 */
        {{0x48, 0x63, 0xd2}, {3, X86_OTHER, false, false, 0}},                           /* movslq %edx,%rdx */
        {{0xb8, 0xff, 0xff, 0xff, 0xff}, {5, X86_OTHER, false, false, 0}},               /* mov $-1,%eax */
        {{0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8}, {10, X86_OTHER, false, false, 0}},        /* movabs */
        {{0x48, 0xc7, 0x45, 0xf8, 0, 0, 0, 0}, {8, X86_OTHER, false, false, 0}},         /* movq $0,-8(%rbp) */
        {{0x66, 0xc7, 0x04, 0x24, 0, 0}, {6, X86_OTHER, false, false, 0}},               /* movw $0,(%rsp) */
        {{0x48, 0x8d, 0x15, 0x05, 0xd5, 0x04, 0}, {7, X86_OTHER, false, false, 0}},      /* lea x(%rip),%rdx */
        {{0xf6, 0x47, 0x08, 0x01}, {4, X86_OTHER, false, false, 0}},                     /* testb $1,8(%rdi) */
        {{0xf7, 0xd8}, {2, X86_OTHER, false, false, 0}},                                 /* neg %eax */
        {{0x0f, 0x1f, 0x44, 0, 0}, {5, X86_OTHER, false, false, 0}},                     /* nopl 0(%rax,%rax) */
        {{0x48, 0x0f, 0x48, 0xc2}, {4, X86_OTHER, false, false, 0}},                     /* cmovs %rdx,%rax */
        {{0xc3}, {1, X86_END, false, false, 0}},                                         /* ret */
        {{0xff, 0xe0}, {2, X86_END, false, false, 0}},                                   /* jmp *%rax */
        {{0x66, 0xe8, 0, 0, 0, 0}, {6, X86_CALL, false, false, ADDRESS + 6}},            /* as on Intel */
        {{0xf0, 0x0f, 0xb1, 0xbe, 0x70, 1, 0, 0}, {8, X86_OTHER, false, false, 0}},      /* lock cmpxchg */
        {{0x0f, 0x0b}, {2, X86_END, false, false, 0}},                                   /* ud2 */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        check(&all[i]);
}

static void test_stores(void **state)
{
    static const struct {
        uint8_t code[12];
        bool is_store;
    } all[] = {
        {{0x48, 0x89, 0x90, 0x88, 0, 0, 0}, true},           /* mov %rdx,0x88(%rax) */
        {{0x48, 0x01, 0x88, 0x80, 0, 0, 0}, true},           /* add %rcx,0x80(%rax) */
        {{0x89, 0x07}, true},                                /* mov %eax,(%rdi) */
        {{0x49, 0x89, 0x04, 0x24}, true},                    /* mov %rax,(%r12) */
        {{0x49, 0x89, 0x45, 0xf8}, true},                    /* mov %rax,-8(%r13) */
        {{0x48, 0x89, 0x44, 0xc8, 0x08}, true},              /* mov %rax,8(%rax,%rcx,8) */
        {{0xc6, 0x40, 0x08, 0x01}, true},                    /* movb $1,8(%rax) */
        {{0x83, 0x47, 0x08, 0x01}, true},                    /* addl $1,8(%rdi) */
        {{0x48, 0x89, 0x45, 0x08}, true},                    /* mov %rax,8(%rbp) */
        {{0x48, 0x89, 0x85, 0x88, 0, 0, 0}, true},           /* mov %rax,0x88(%rbp) */
        {{0x0f, 0x11, 0x80, 0x80, 0, 0, 0}, true},           /* movups %xmm0,0x80(%rax) */
        {{0x66, 0x41, 0x0f, 0x7f, 0x00}, true},              /* movdqa %xmm0,(%r8) */
        {{0x48, 0x89, 0xc7}, false},                         /* mov %rax,%rdi */
        {{0x48, 0x8b, 0x47, 0x08}, false},                   /* mov 8(%rdi),%rax */
        {{0x48, 0x39, 0x47, 0x08}, false},                   /* cmp %rax,8(%rdi) */
        {{0x83, 0x7f, 0x08, 0x01}, false},                   /* cmpl $1,8(%rdi) */
        {{0x48, 0x89, 0x04, 0x24}, false},                   /* mov %rax,(%rsp) */
        {{0x48, 0x89, 0x84, 0x24, 0x88, 0, 0, 0}, false},    /* mov %rax,0x88(%rsp) */
        {{0x48, 0x89, 0x45, 0xf8}, false},                   /* mov %rax,-8(%rbp) */
        {{0x48, 0x89, 0x85, 0, 0xff, 0xff, 0xff}, false},    /* mov %rax,-256(%rbp) */
        {{0x48, 0x89, 0x05, 0x10, 0, 0, 0}, false},          /* mov %rax,16(%rip) */
        {{0x64, 0x48, 0x89, 0x04, 0x25, 8, 0, 0, 0}, false}, /* mov %rax,%fs:8 */
        {{0x0f, 0x10, 0x80, 0x80, 0, 0, 0}, false},          /* movups 0x80(%rax),%xmm0 */
        {{0x0f, 0x11, 0x04, 0x24}, false},                   /* movups %xmm0,(%rsp) */
    };
    (void)state;
    for (size_t n = 0; n < sizeof(all) / sizeof(all[0]); n++) {
        struct x86_instruction i;
        assert_true(x86_decode(all[n].code, sizeof(all[n].code), ADDRESS, &i));
        assert_int_equal(i.is_store, all[n].is_store);
    }
}

static void test_unknown_instructions_are_refused(void **state)
{
    static const uint8_t all[][8] = {
        {0xc5, 0xf8, 0x77},
        {0x62},
        {0x0f, 0x38, 0xf0},
        {0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x90},
    };
    struct x86_instruction i;
    (void)state;
    for (size_t n = 0; n < sizeof(all) / sizeof(all[0]); n++)
        assert_false(x86_decode(all[n], sizeof(all[n]), ADDRESS, &i));
    /* Longer than any instruction: lock movl $0,disp(,%rax) with more prefixes. */
    static const uint8_t longest[16] = {0x2e, 0x3e, 0x64, 0x65, 0xf0, 0x48, 0xc7, 0x04, 0x05};
    assert_false(x86_decode(longest, sizeof(longest), ADDRESS, &i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_emulated_instructions),
        cmocka_unit_test(test_single_stepped_instructions),
        cmocka_unit_test(test_stores),
        cmocka_unit_test(test_unknown_instructions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
