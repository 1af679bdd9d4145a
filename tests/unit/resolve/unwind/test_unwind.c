/* Finishing the walk of a copied stack: the reported reason where the copy ends before the stack does. The code is a
 * mapping without a file, walked by frame pointer, and a signal trampoline, whose rule is given. */
#include "resolve/unwind/unwind.h"

#include "probes/request.h"
#include "resolve/process/processes.h"
#include "resolve/unwind/unwind_cache.h"

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

static struct unwind_rule rule_of_objects = {.cfa = UNWIND_CFA_SIGNAL};

int unwind_cache_find(struct unwind_cache *c, const struct object *o, uint32_t file_offset, struct unwind_rule *ret)
{
    (void)c;
    (void)o;
    (void)file_offset;
    *ret = rule_of_objects;
    return 0;
}

static union {
    struct stack_record r;
    char room[sizeof(struct stack_record) + STACK_COPY_BYTES];
} record;

static bool walks_code;
static struct unwind_spans spans;

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
    record.r.h.kind = RECORD_CPU_SAMPLE;
    record.r.user_end = (uint8_t)user_end;
    record.r.stop_ip = CODE + 100;
    record.r.stop_sp = STACK;
    record.r.stop_fp = STACK + 64;
    record.r.stack_bytes = (uint32_t)stack_bytes;
    memcpy((char *)record.r.data + 64, frames, sizeof(frames));
    memcpy((char *)record.r.data + 128, last, sizeof(last));
    return unwind_finish_sample(&record.r, &process, NULL, walks_code, found, 16, ret_count, &spans);
}

static void test_parts_of_frames_on_the_stack_are_reported(void **state)
{
    (void)state;
    size_t count;
    finish(256, UNWIND_END_NO_TABLE, 0, &count);
    assert_int_equal(count, 2);
    const uint64_t sp[] = {STACK, STACK + 80, STACK + 144}; /* of the starting frame, and of the two */
    assert_int_equal(spans.count, 2);
    assert_memory_equal(spans.sp, sp, sizeof(sp));
    assert_int_equal(spans.first, record.r.user_frames - 1);
    finish(0, UNWIND_END_NO_TABLE, 0, &count);
    assert_int_equal(spans.count, 0);
}

/* A chain of frame pointers, 16 bytes a frame, longer than a stack may be. */
static void test_deepest_stack(void **state)
{
    (void)state;
    const struct process_mapping code = {.start = CODE, .end = CODE + 4096};
    const struct process process = {.pid = 1, .mappings = &code, .mapping_count = 1};
    static uint64_t found[STACK_MAX_USER_FRAMES];
    size_t count;
    finish(STACK_COPY_BYTES, UNWIND_END_NO_TABLE, 0, &count);
    record.r.stop_fp = STACK;
    for (size_t i = 0; i < STACK_COPY_BYTES / 16; i++) {
        record.r.data[2 * i] = STACK + 16 * (i + 1);
        record.r.data[2 * i + 1] = CODE + 100;
    }
    assert_int_equal(
        unwind_finish_sample(&record.r, &process, NULL, false, found, STACK_MAX_USER_FRAMES, &count, &spans),
        UNWIND_END_TOO_DEEP);
    assert_int_equal(count, STACK_MAX_USER_FRAMES);
    assert_int_equal(spans.count, STACK_MAX_USER_FRAMES + 1); /* the starting frame's too */
    assert_int_equal(spans.sp[spans.count], STACK + 16 * spans.count);
}

/* Its frame pointers would skip callers and lead to an apparent end. */
static void test_code_without_frame_pointers_ends_the_stack(void **state)
{
    size_t count;
    (void)state;
    const int end = finish(256, UNWIND_END_NO_TABLE, 0, &count);
    assert_int_not_equal(end, UNWIND_END_UNSUPPORTED);
    assert_true(count > 0);
    walks_code = true;
    assert_int_equal(finish(256, UNWIND_END_NOT_RUNNING, 0, &count), UNWIND_END_UNSUPPORTED);
    assert_int_equal(count, 0);
    assert_int_equal(finish(256, UNWIND_END_NO_TABLE, 0, &count),
                     UNWIND_END_NO_TABLE); /* with an unwind table the BPF side walks it */
    assert_int_equal(count, 0);
    walks_code = false;
}

static void test_copy_is_shorter_than_the_stack(void **state)
{
    (void)state;
    size_t count = 0;
    const uint64_t above = STACK + STACK_COPY_BYTES + 4096;
    assert_int_equal(finish(STACK_COPY_BYTES, UNWIND_END_NO_TABLE, above, &count), UNWIND_END_NO_TABLE);
    assert_int_equal(count, 2);
    assert_int_equal(finish(STACK_COPY_BYTES, UNWIND_END_NO_PROCESS, above, &count), UNWIND_END_NO_PROCESS);
    /* Only the rest is missing: the stack was copied because the thread slept. */
    assert_int_equal(finish(STACK_COPY_BYTES, UNWIND_END_NOT_RUNNING, above, &count), UNWIND_END_TOO_DEEP);
    assert_int_equal(count, 2);
    assert_int_equal(finish(4096, UNWIND_END_NOT_RUNNING, above, &count), UNWIND_END_BAD_READ);
}

static void test_unreadable_stack(void **state)
{
    (void)state;
    size_t count = 0;
    const uint64_t above = STACK + STACK_COPY_BYTES + 4096;
    /* The copy ends where the stack could not be read. */
    assert_int_equal(finish(4096, UNWIND_END_NO_TABLE, above, &count), UNWIND_END_BAD_READ);
    /* The next frame is not on this stack. */
    assert_int_equal(finish(STACK_COPY_BYTES, UNWIND_END_NO_TABLE, above + (1u << 30), &count), UNWIND_END_BAD_READ);
    assert_int_equal(count, 2);
}

/* The thread's link follows the copy, and is not part of it. */
static void test_link_follows_the_copy(void **state)
{
    (void)state;
    size_t plain = 0, linked = 0;
    const int end = finish(4096, UNWIND_END_NO_TABLE, STACK + 256, &plain);
    record.r.flags = STACK_RECORD_LINKED | STACK_RECORD_SECOND_STACK;
    record.r.h.size_bytes += sizeof(struct link_ids);
    const struct process_mapping code = {.start = CODE, .end = CODE + 4096};
    const struct process process = {.pid = 1, .mappings = &code, .mapping_count = 1};
    uint64_t found[16];
    assert_int_equal(unwind_finish_sample(&record.r, &process, NULL, false, found, 16, &linked, &spans), end);
    assert_int_equal(linked, plain);
}

/* A handler on a stack of its own, called by the trampoline above the kernel's frame, which says that STACK was
 * interrupted; `second_bytes` of that are copied too. */
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
    record.r.h.kind = RECORD_CPU_SAMPLE;
    record.r.h.size_bytes = (uint32_t)(sizeof(record.r) + first_bytes);
    record.r.user_end = UNWIND_END_NO_PROCESS;
    record.r.stop_ip = CODE + 100;
    record.r.stop_sp = SIGNALS;
    record.r.stop_fp = SIGNALS + 64;
    record.r.stack_bytes = (uint32_t)first_bytes;
    memcpy(data + 64, to_trampoline, sizeof(to_trampoline));
    /* The frame above is at SIGNALS + 80, the address of the ucontext. */
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
        record.r.flags |= STACK_RECORD_SECOND_STACK;
        record.r.h.size_bytes += (uint32_t)(8 + second_bytes);
        memcpy(data + first_bytes, &address, 8);
        memcpy(data + first_bytes + 8 + 32, interrupted, sizeof(interrupted));
        memcpy(data + first_bytes + 8 + 64, last, sizeof(last));
    }
    return unwind_finish_sample(&record.r, &process, NULL, false, ret_found, 16, ret_count, &spans);
}

static void test_interrupted_stack_is_a_separate_copy(void **state)
{
    (void)state;
    size_t count = 0;
    uint64_t found[16];
    assert_int_equal(finish_signal(256, 0, &count, found), UNWIND_END_ENTRY);
    assert_int_equal(count, 4);
    assert_int_equal(found[0], TRAMPOLINE + 10);
    assert_int_equal(found[1], (CODE + 300) | FRAME_EXACT);
    assert_int_equal(found[2], CODE + 400);
    assert_int_equal(found[3], CODE + 500);
}

/* None of it was copied: the reason is a missing unwind table, not an unreadable stack. */
static void test_interrupted_stack_was_not_copied(void **state)
{
    (void)state;
    size_t count = 0;
    uint64_t found[16];
    assert_int_equal(finish_signal(0, 0, &count, found), UNWIND_END_NO_PROCESS);
    assert_int_equal(count, 2);
    /* A part of it was copied: above that, the copy is too short. */
    assert_int_equal(finish_signal(STACK_COPY_BYTES - 1024 - 8, STACK + (1 << 20), &count, found),
                     UNWIND_END_NO_PROCESS);
    assert_int_equal(count, 4);
}

/* ---- Go: a stack of the runtime that works for a goroutine; the goroutine's own stack is the second copy ---- */

#define WORKS (CODE + 0x10) /* called by GROWS or GOES, 8 bytes of its own */
#define PICKS (CODE + 0x20) /* the scheduler, likewise */
#define GROWS (CODE + 0x30) /* as runtime.morestack */
#define GOES  (CODE + 0x40) /* as runtime.systemstack, with 8 bytes */
#define ENDS  (CODE + 0x50) /* the first function of a stack */

static int go_rule(void *context, uint64_t address, struct unwind_rule *ret)
{
    (void)context;
    *ret = (struct unwind_rule){.cfa = UNWIND_CFA_SP, .cfa_offset = 16, .ra_offset = -8};
    switch (address & ~0xfull) {
    case PICKS:
        ret->cfa = UNWIND_CFA_SP_SCHEDULER;
        break;
    case GROWS:
        *ret = (struct unwind_rule){.cfa = UNWIND_CFA_GOROUTINE};
        break;
    case GOES:
        *ret = (struct unwind_rule){
            .cfa = UNWIND_CFA_GOROUTINE, .cfa_offset = 16, .ra_offset = -8, .fp = UNWIND_FP_AT_CFA, .fp_offset = -16};
        break;
    case ENDS:
        ret->cfa = UNWIND_CFA_END;
        break;
    default:
        break;
    }
    return 0;
}

/* From a leaf that `called` called on the thread's stack, followed by the given frames. */
static void skip_without_goroutines(void)
{
#if defined(__aarch64__)
    print_message("skipped: stacks go over to goroutines on x86-64 only\n");
    skip();
#endif
}

static int walk_go(const uint64_t called[2], const struct unwind_goroutine *goroutine, uint64_t ret_frames[16],
                   size_t *ret_count)
{
    const uint64_t own[] = {0, called[0] + 2, 0, called[1] + 2, 0, 0}, its[] = {0x1234, WORKS + 2, 0, ENDS + 2};
    const struct unwind_copy copy = {.registers = {.ip = WORKS, .sp = STACK, .fp = 0x100},
                                     .interrupted = true,
                                     .pieces = {{STACK, own, sizeof(own)}, {SIGNALS, its, sizeof(its)}},
                                     .goroutine = *goroutine};
    return unwind_walk(&copy, go_rule, NULL, ret_frames, 16, ret_count);
}

static void test_walk_continues_on_the_goroutine_stack(void **state)
{
    (void)state;
    skip_without_goroutines();
    const struct unwind_goroutine found = {UNWIND_GOROUTINE_FOUND, WORKS + 4, SIGNALS + 16, 0},
                                  going = {UNWIND_GOROUTINE_FOUND, 0, SIGNALS, 0};
    const uint64_t grows[] = {WORKS, GROWS}, goes[] = {WORKS, GOES};
    uint64_t frames[16];
    size_t count = 0;
    assert_int_equal(walk_go(grows, &found, frames, &count), UNWIND_END_ENTRY);
    assert_int_equal(count, 4);
    assert_true(frames[1] == GROWS + 2 && frames[2] == WORKS + 4 && frames[3] == ENDS + 2);
    assert_int_equal(walk_go(goes, &going, frames, &count), UNWIND_END_ENTRY);
    assert_int_equal(count, 4);
    assert_true(frames[1] == GOES + 2 && frames[2] == WORKS + 2 && frames[3] == ENDS + 2);
}

/* What the scheduler has picked did not call anything on this stack. */
static void test_scheduler_stack_ends_the_walk(void **state)
{
    (void)state;
    skip_without_goroutines();
    const struct unwind_goroutine found = {UNWIND_GOROUTINE_FOUND, WORKS + 4, SIGNALS + 16, 0},
                                  none = {.state = UNWIND_GOROUTINE_NONE}, unknown = {0};
    const struct unwind_goroutine itself = {UNWIND_GOROUTINE_FOUND, GROWS + 4, SIGNALS, 0},
                                  crooked = {UNWIND_GOROUTINE_FOUND, WORKS + 4, SIGNALS + 4, 0};
    const uint64_t picks[] = {PICKS, GROWS}, grows[] = {WORKS, GROWS}, goes[] = {WORKS, GOES};
    uint64_t frames[16];
    size_t count = 0;
    assert_int_equal(walk_go(picks, &found, frames, &count), UNWIND_END_ENTRY);
    assert_int_equal(count, 2);
    assert_int_equal(walk_go(grows, &none, frames, &count), UNWIND_END_ENTRY);
    assert_int_equal(count, 2);
    assert_int_equal(walk_go(grows, &unknown, frames, &count), UNWIND_END_UNSUPPORTED);
    assert_int_equal(walk_go(goes, &unknown, frames, &count), UNWIND_END_BAD_READ); /* by the frame pointer */
    assert_int_equal(walk_go(grows, &itself, frames, &count), UNWIND_END_BAD_READ); /* a circle */
    assert_int_equal(count, 3);
    assert_int_equal(walk_go(grows, &crooked, frames, &count), UNWIND_END_BAD_READ);
}

/* The reason is a missing unwind table; with it, the BPF side continues there. */
static void test_goroutine_stack_was_not_copied(void **state)
{
    (void)state;
    const struct object object = {.id = 1};
    const struct process_mapping code = {.start = CODE, .end = CODE + 4096, .object = (struct object *)&object};
    const struct process process = {.pid = 1, .mappings = &code, .mapping_count = 1};
    uint64_t found[16];
    size_t count = 0;
    (void)finish(256, UNWIND_END_NO_TABLE, 0, &count);
    rule_of_objects = (struct unwind_rule){.cfa = UNWIND_CFA_GOROUTINE};
    assert_int_equal(unwind_finish_sample(&record.r, &process, NULL, false, found, 16, &count, &spans),
                     UNWIND_END_NO_TABLE);
    rule_of_objects = (struct unwind_rule){.cfa = UNWIND_CFA_FP, .cfa_offset = 16, .ra_offset = -8};
    record.r.stop_fp = SIGNALS;
    assert_int_equal(unwind_finish_sample(&record.r, &process, NULL, false, found, 16, &count, &spans),
                     UNWIND_END_NO_TABLE);
    rule_of_objects = (struct unwind_rule){.cfa = UNWIND_CFA_SIGNAL};
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_of_frames_on_the_stack_are_reported),
        cmocka_unit_test(test_deepest_stack),
        cmocka_unit_test(test_code_without_frame_pointers_ends_the_stack),
        cmocka_unit_test(test_copy_is_shorter_than_the_stack),
        cmocka_unit_test(test_unreadable_stack),
        cmocka_unit_test(test_link_follows_the_copy),
        cmocka_unit_test(test_interrupted_stack_is_a_separate_copy),
        cmocka_unit_test(test_interrupted_stack_was_not_copied),
        cmocka_unit_test(test_walk_continues_on_the_goroutine_stack),
        cmocka_unit_test(test_scheduler_stack_ends_the_walk),
        cmocka_unit_test(test_goroutine_stack_was_not_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
