/* Finishing the walk of a copied stack: what is said where the copy ends before the stack does. The code is a
 * mapping without a file, which is walked by the frame pointer. */
#include "resolve/unwind.h"

#include "resolve/processes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define CODE  0x10000u
#define STACK 0x7ffe00000000u

static union {
    struct cpu_sample r;
    char room[sizeof(struct cpu_sample) + CPU_STACK_COPY_BYTES];
} record;

/* Two frames in the copy, the third at `third`. */
static int finish(size_t stack_bytes, unsigned user_end, uint64_t third, size_t *ret_count)
{
    const struct process_mapping code = {.start = CODE, .end = CODE + 4096};
    const struct process process = {.pid = 1, .mappings = &code, .mapping_count = 1};
    const uint64_t frames[] = {STACK + 128, CODE + 200};
    const uint64_t last[] = {third, CODE + 300};
    uint64_t found[16];
    memset(&record, 0, sizeof(record));
    record.r.h.size_bytes = (uint32_t)(sizeof(record.r) + stack_bytes);
    record.r.user_end = (uint8_t)user_end;
    record.r.stop_ip = CODE + 100;
    record.r.stop_sp = STACK;
    record.r.stop_fp = STACK + 64;
    record.r.stack_bytes = (uint32_t)stack_bytes;
    memcpy((char *)record.r.data + 64, frames, sizeof(frames));
    memcpy((char *)record.r.data + 128, last, sizeof(last));
    return unwind_finish_sample(&record.r, &process, NULL, found, 16, ret_count);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy_is_shorter_than_the_stack),
        cmocka_unit_test(test_stack_is_not_readable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
