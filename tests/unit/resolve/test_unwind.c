/* Finishing the walk of a copied stack: what is said where the copy ends before the stack does. The code is a
 * mapping without a file, which is walked by the frame pointer, and a signal's trampoline, whose rule is
 * told. */
#include "resolve/unwind.h"

#include "../../../probes/request.h"
#include "resolve/processes.h"
#include "resolve/unwind_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include <cmocka.h>

#if defined(__aarch64__)
#define SAVED_FP offsetof(ucontext_t, uc_mcontext.regs[29])
#define SAVED_SP offsetof(ucontext_t, uc_mcontext.sp)
#define SAVED_IP offsetof(ucontext_t, uc_mcontext.pc)
#else
#define SAVED_FP offsetof(ucontext_t, uc_mcontext.gregs[REG_RBP])
#define SAVED_SP offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP])
#define SAVED_IP offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP])
#endif

#define CODE       0x10000u
#define STACK      0x7ffe00000000u
#define SIGNALS    0x20000000u /* a stack for signals */
#define TRAMPOLINE 0x20000u

int unwind_cache_find(struct unwind_cache *c, const struct object *o, uint32_t file_offset,
                      struct unwind_rule *ret)
{
    (void)c;
    (void)o;
    (void)file_offset;
    *ret = (struct unwind_rule){.cfa = UNWIND_CFA_SIGNAL};
    return 0;
}

static union {
    struct cpu_sample r;
    char room[sizeof(struct cpu_sample) + CPU_STACK_COPY_BYTES];
} record;

/* Two frames in the copy, the third at `third`. */
static int finish_kind(uint16_t kind, size_t stack_bytes, unsigned user_end, uint64_t third,
                       size_t *ret_count)
{
    const struct process_mapping code = {.start = CODE, .end = CODE + 4096};
    const struct process process = {.pid = 1, .mappings = &code, .mapping_count = 1};
    const uint64_t frames[] = {STACK + 128, CODE + 200};
    const uint64_t last[] = {third, CODE + 300};
    uint64_t found[16];
    memset(&record, 0, sizeof(record));
    record.r.h.size_bytes = (uint32_t)(sizeof(record.r) + stack_bytes);
    record.r.h.kind = kind;
    record.r.user_end = (uint8_t)user_end;
    record.r.stop_ip = CODE + 100;
    record.r.stop_sp = STACK;
    record.r.stop_fp = STACK + 64;
    record.r.stack_bytes = (uint32_t)stack_bytes;
    memcpy((char *)record.r.data + 64, frames, sizeof(frames));
    memcpy((char *)record.r.data + 128, last, sizeof(last));
    return unwind_finish_sample(&record.r, &process, NULL, NULL, found, 16, ret_count);
}

static int finish(size_t stack_bytes, unsigned user_end, uint64_t third, size_t *ret_count)
{
    return finish_kind(WIRE_CPU_SAMPLE, stack_bytes, user_end, third, ret_count);
}

static void test_copy_is_shorter_than_the_stack(void **state)
{
    (void)state;
    size_t count = 0;
    const uint64_t above = STACK + CPU_STACK_COPY_BYTES + 4096;
    assert_int_equal(finish(CPU_STACK_COPY_BYTES, UNWIND_END_NO_ROWS, above, &count), UNWIND_END_NO_ROWS);
    assert_int_equal(count, 2);
    assert_int_equal(finish(CPU_STACK_COPY_BYTES, UNWIND_END_NO_PROCESS, above, &count),
                     UNWIND_END_NO_PROCESS);
}

static void test_stack_is_not_readable(void **state)
{
    (void)state;
    size_t count = 0;
    const uint64_t above = STACK + CPU_STACK_COPY_BYTES + 4096;
    /* The copy ends where the stack could not be read. */
    assert_int_equal(finish(4096, UNWIND_END_NO_ROWS, above, &count), UNWIND_END_BAD_READ);
    /* What was wanted is no place on this stack. */
    assert_int_equal(finish(CPU_STACK_COPY_BYTES, UNWIND_END_NO_ROWS, above + (1u << 30), &count),
                     UNWIND_END_BAD_READ);
    assert_int_equal(count, 2);
}

/* What the thread worked for stands behind the copy, and is no part of it. */
static void test_link_behind_the_copy(void **state)
{
    (void)state;
    size_t plain = 0, linked = 0;
    const int end = finish(4096, UNWIND_END_NO_ROWS, STACK + 256, &plain);
    record.r.flags = CPU_SAMPLE_LINKED | CPU_SAMPLE_SECOND_STACK;
    record.r.h.size_bytes += sizeof(struct link_ids);
    const struct process_mapping code = {.start = CODE, .end = CODE + 4096};
    const struct process process = {.pid = 1, .mappings = &code, .mapping_count = 1};
    uint64_t found[16];
    assert_int_equal(unwind_finish_sample(&record.r, &process, NULL, NULL, found, 16, &linked), end);
    assert_int_equal(linked, plain);
}

/* Less is copied of a wait's stack. */
static void test_copy_of_a_wait(void **state)
{
    (void)state;
    size_t count = 0;
    const uint64_t above = STACK + REQUEST_STACK_COPY_BYTES + 4096;
    assert_int_equal(
        finish_kind(WIRE_REQUEST_STACK, REQUEST_STACK_COPY_BYTES, UNWIND_END_NO_ROWS, above, &count),
        UNWIND_END_NO_ROWS);
    assert_int_equal(count, 2);
    assert_int_equal(finish(REQUEST_STACK_COPY_BYTES, UNWIND_END_NO_ROWS, above, &count),
                     UNWIND_END_BAD_READ);
}

/* A handler on a stack of its own, called by the trampoline above the kernel's frame, which says that STACK
 * was interrupted; `second_bytes` of that are copied too. */
static int finish_signal(size_t second_bytes, uint64_t third, size_t *ret_count, uint64_t *ret_found)
{
    const struct object object = {.id = 1};
    struct object *o = (struct object *)&object;
    const struct process_mapping maps[] = {
        {.start = CODE, .end = CODE + 4096},
        {.start = TRAMPOLINE, .end = TRAMPOLINE + 4096, .object = o},
    };
    const struct process process = {.pid = 1, .mappings = maps, .mapping_count = 2};
    const uint64_t to_trampoline[] = {0, TRAMPOLINE + 10};
    const uint64_t interrupted[] = {STACK + 64, CODE + 400};
    const uint64_t last[] = {third, CODE + 500};
    const size_t first_bytes = 1024;
    char *data = (char *)record.r.data;
    memset(&record, 0, sizeof(record));
    record.r.h.kind = WIRE_CPU_SAMPLE;
    record.r.h.size_bytes = (uint32_t)(sizeof(record.r) + first_bytes);
    record.r.user_end = UNWIND_END_NO_PROCESS;
    record.r.stop_ip = CODE + 100;
    record.r.stop_sp = SIGNALS;
    record.r.stop_fp = SIGNALS + 64;
    record.r.stack_bytes = (uint32_t)first_bytes;
    memcpy(data + 64, to_trampoline, sizeof(to_trampoline));
    /* The frame above is at SIGNALS + 80: there lies the ucontext. */
    const struct {
        size_t at;
        uint64_t value;
    } saved[] = {
        {SAVED_SP, STACK},
        {SAVED_FP, STACK + 32},
        {SAVED_IP, CODE + 300},
    };
    for (size_t i = 0; i < 3; i++)
        memcpy(data + 80 + saved[i].at, &saved[i].value, 8);
    if (second_bytes) {
        const uint64_t address = STACK;
        record.r.flags |= CPU_SAMPLE_SECOND_STACK;
        record.r.h.size_bytes += (uint32_t)(8 + second_bytes);
        memcpy(data + first_bytes, &address, 8);
        memcpy(data + first_bytes + 8 + 32, interrupted, sizeof(interrupted));
        memcpy(data + first_bytes + 8 + 64, last, sizeof(last));
    }
    return unwind_finish_sample(&record.r, &process, NULL, NULL, ret_found, 16, ret_count);
}

static void test_interrupted_stack_is_another(void **state)
{
    (void)state;
    size_t count = 0;
    uint64_t found[16];
    assert_int_equal(finish_signal(256, 0, &count, found), UNWIND_END_ENTRY);
    assert_int_equal(count, 4);
    assert_int_equal(found[0], TRAMPOLINE + 10);
    assert_int_equal(found[1], (CODE + 300) | CPU_FRAME_EXACT);
    assert_int_equal(found[2], CODE + 400);
    assert_int_equal(found[3], CODE + 500);
}

/* Nothing of it came along: what is missing is rows, and not a stack that can be read. */
static void test_interrupted_stack_was_not_copied(void **state)
{
    (void)state;
    size_t count = 0;
    uint64_t found[16];
    assert_int_equal(finish_signal(0, 0, &count, found), UNWIND_END_NO_PROCESS);
    assert_int_equal(count, 2);
    /* A part of it did: above that, the copy was too short. */
    assert_int_equal(finish_signal(CPU_STACK_COPY_BYTES - 1024 - 8, STACK + (1 << 20), &count, found),
                     UNWIND_END_NO_PROCESS);
    assert_int_equal(count, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy_is_shorter_than_the_stack),
        cmocka_unit_test(test_stack_is_not_readable),
        cmocka_unit_test(test_copy_of_a_wait),
        cmocka_unit_test(test_link_behind_the_copy),
        cmocka_unit_test(test_interrupted_stack_is_another),
        cmocka_unit_test(test_interrupted_stack_was_not_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
