/* Equal waits are summed, with the stack recorded for them; no time is lost, whatever comes in between and however
 * little memory there is. */
#include "resolve/sample/wait_sums.h"

#include "base/turn_time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TAKEN_MAX 16

struct taken {
    struct {
        struct wait_sum sum;
        uint32_t tid;
        uint64_t stack_ns, waker_ns;
        size_t size_bytes; /* of the stack */
    } rows[TAKEN_MAX];
    size_t count;
    uint64_t ns;
};

static void store_sum(void *context, const struct wait_sum *sum)
{
    struct taken *t = context;
    t->ns += sum->waited_ns + sum->queued_ns;
    if (t->count < TAKEN_MAX) {
        t->rows[t->count].sum = *sum;
        t->rows[t->count].tid = sum->wait->h.tid;
        t->rows[t->count].stack_ns = sum->stack ? sum->stack->h.time_ns : 0;
        t->rows[t->count].size_bytes = sum->stack ? sum->stack->h.size_bytes : 0;
        t->rows[t->count].waker_ns = sum->waker ? sum->waker->h.time_ns : 0;
    }
    t->count++;
}

static int put_stack(struct wait_sums *w, uint32_t tid, uint64_t time_ns)
{
    const struct stack_record s = {
        .h = {.size_bytes = sizeof(s), .kind = RECORD_OFF_CPU_STACK, .time_ns = time_ns, .pid = 7, .tid = tid}};
    return wait_sums_stack(w, &s);
}

/* From 100 ns before `end_ns`, the last `queued_ns` of it in the queue. */
static void put_wait(struct wait_sums *w, uint32_t tid, uint64_t stack_ns, uint64_t end_ns, uint64_t queued_ns,
                     uint8_t flags)
{
    const struct off_cpu_wait wait = {
        .h = {.size_bytes = sizeof(wait), .kind = RECORD_OFF_CPU, .time_ns = end_ns, .pid = 7, .tid = tid},
        .start_ns = end_ns - 100,
        .weight_ns = 100,
        .queued_ns = queued_ns,
        .count = 1,
        .stack_ns = stack_ns,
        .flags = flags};
    wait_sums_add(w, &wait);
}

static void test_equal_waits_are_summed(void **state)
{
    (void)state;
    struct taken t = {0};
    _cleanup_(wait_sums_freep) struct wait_sums *w = NULL;
    assert_int_equal(wait_sums_new(1 << 20, store_sum, &t, &w), 0);
    assert_int_equal(put_stack(w, 8, 900), 0);
    put_wait(w, 8, 900, 1000, 10, 0);
    put_wait(w, 8, 900, 2000, 0, 0);
    put_wait(w, 9, 0, 2000, 0, 0); /* of another thread */
    assert_int_equal(t.count, 0);
    wait_sums_flush(w, 6);
    assert_int_equal(t.count, 0);
    wait_sums_flush(w, 7);
    wait_sums_flush_all(w);
    assert_int_equal(t.count, 2);
    size_t at = t.rows[0].tid == 9;
    assert_int_equal(t.rows[at].sum.waits, 2);
    assert_int_equal(t.rows[at].sum.waited_ns, 190);
    assert_int_equal(t.rows[at].sum.queued, 1);
    assert_int_equal(t.rows[at].sum.queued_ns, 10);
    assert_int_equal(t.rows[at].stack_ns, 900);
    assert_int_equal(t.rows[!at].stack_ns, 0);
}

static void test_different_waits_stay_separate(void **state)
{
    (void)state;
    struct taken t = {0};
    _cleanup_(wait_sums_freep) struct wait_sums *w = NULL;
    assert_int_equal(wait_sums_new(1 << 20, store_sum, &t, &w), 0);
    assert_int_equal(put_stack(w, 8, 900), 0);
    put_wait(w, 8, 900, 1000, 0, 0);
    put_wait(w, 8, 900, 1200, 100, OFF_CPU_PREEMPTED);
    assert_int_equal(t.count, 1);
    assert_int_equal(put_stack(w, 8, 1250), 0); /* takes the slot of the other: its waits are flushed first */
    assert_int_equal(t.count, 2);
    assert_int_equal(t.rows[1].stack_ns, 900);
    assert_int_equal(t.rows[1].sum.waits, 0);
    assert_int_equal(t.rows[1].sum.queued_ns, 100);
    put_wait(w, 8, 1250, 1400, 0, 0);
    put_wait(w, 8, 900, 1600, 0, 0); /* that one is gone */
    wait_sums_flush_all(w);
    assert_int_equal(t.count, 4);
    assert_int_equal(t.rows[2].stack_ns, 1250);
    assert_int_equal(t.rows[3].stack_ns, 0);
    assert_int_equal(t.ns, 400);
}

static int put_more(struct wait_sums *w, uint32_t tid, uint64_t time_ns, size_t bytes)
{
    struct stack_record *s = calloc(1, sizeof(*s) + bytes);
    assert_non_null(s);
    s->h = (struct record_header){.size_bytes = (uint32_t)(sizeof(*s) + bytes),
                                  .kind = RECORD_OFF_CPU_STACK,
                                  .time_ns = time_ns,
                                  .pid = 7,
                                  .tid = tid};
    int r = wait_sums_stack(w, s);
    free(s);
    return r;
}

/* The user part of a stack arrives late: it is used for a wait that is unfinished, and dropped for one that is over. */
static void test_user_stack_arrives_later(void **state)
{
    (void)state;
    struct taken t = {0};
    _cleanup_(wait_sums_freep) struct wait_sums *w = NULL;
    assert_int_equal(wait_sums_new(1 << 20, store_sum, &t, &w), 0);
    assert_int_equal(put_stack(w, 9, 0), 0); /* a time that only occurs in files */
    assert_int_equal(put_stack(w, 8, 900), 0);
    put_wait(w, 8, 900, 1000, 0, 0);
    assert_int_equal(put_more(w, 8, 900, 4096), 0);
    assert_int_equal(t.rows[0].size_bytes, sizeof(struct stack_record));
    put_wait(w, 8, 900, 1200, 0, 0);
    assert_int_equal(put_stack(w, 8, 1300), 0);
    assert_int_equal(t.rows[1].size_bytes, sizeof(struct stack_record) + 4096);
    put_wait(w, 8, 1300, 1400, 0, 0);
    assert_int_equal(put_more(w, 8, 900, 4096), 0);
    wait_sums_flush_all(w);
    assert_int_equal(t.count, 3);
    assert_int_equal(t.rows[2].stack_ns, 1300);
}

/* Half of the memory is left to the stacks of running threads. */
static void test_later_user_stacks_are_bounded(void **state)
{
    (void)state;
    struct taken t = {0};
    _cleanup_(wait_sums_freep) struct wait_sums *w = NULL;
    assert_int_equal(wait_sums_new(64 << 10, store_sum, &t, &w), 0);
    for (uint32_t tid = 1; tid <= 5; tid++) {
        assert_int_equal(put_stack(w, tid, 900), 0);
        assert_int_equal(put_more(w, tid, 900, 8 << 10), tid <= 3 ? 0 : -ENOSPC);
    }
    assert_int_equal(put_more(w, 6, 900, 16 << 10), 0); /* of a running thread */
    put_wait(w, 5, 900, 1000, 0, 0);
    wait_sums_flush_all(w);
    assert_int_equal(t.rows[0].size_bytes, sizeof(struct stack_record)); /* the previous stack is kept */
}

static void test_evicted_stack_flushes_its_waits(void **state)
{
    (void)state;
    struct taken t = {0};
    _cleanup_(wait_sums_freep) struct wait_sums *w = NULL;
    assert_int_equal(wait_sums_new(1 << 20, store_sum, &t, &w), 0);
    assert_int_equal(put_stack(w, 8, 900), 0);
    assert_int_equal(put_stack(w, 9, 900), 0);
    put_wait(w, 8, 900, 1000, 0, 0);
    put_wait(w, 9, 900, 1000, 0, 0);
    wait_sums_forget(w, 7, 8);
    assert_int_equal(t.count, 1);
    put_wait(w, 8, 900, 1200, 0, 0); /* another thread with that id would have another stack */
    wait_sums_forget(w, 7, 0);
    assert_int_equal(t.count, 3);
    wait_sums_flush_all(w);
    assert_int_equal(t.count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(t.rows[i].stack_ns, i == 1 && t.rows[i].tid == 8 ? 0 : t.rows[i].tid == 8 && i > 0 ? 0 : 900);
}

#define WAKER_NS 0x500000003u /* only the lower half is recorded */

static int put_waker(struct wait_sums *w, uint32_t pid, uint32_t tid, uint64_t time_ns)
{
    const struct stack_record s = {
        .h = {.size_bytes = sizeof(s), .kind = RECORD_OFF_CPU_WAKER, .time_ns = time_ns, .pid = pid, .tid = pid},
        .woken = {.pid = 7, .tid = tid}};
    return wait_sums_waker(w, &s);
}

static void put_ended(struct wait_sums *w, uint64_t end_ns, uint8_t waker, uint64_t waker_ns)
{
    const struct off_cpu_wait wait = {
        .h = {.size_bytes = sizeof(wait), .kind = RECORD_OFF_CPU, .time_ns = end_ns, .pid = 7, .tid = 8},
        .start_ns = end_ns - 100,
        .weight_ns = 100,
        .count = 1,
        .waker = waker,
        .waker_ns = (uint32_t)waker_ns};
    wait_sums_add(w, &wait);
}

/* Waits ended by the same waker are summed; another waker takes the slot of the last. */
static void test_waits_are_summed_by_waker(void **state)
{
    (void)state;
    struct taken t = {0};
    _cleanup_(wait_sums_freep) struct wait_sums *w = NULL;
    assert_int_equal(wait_sums_new(1 << 20, store_sum, &t, &w), 0);
    assert_int_equal(put_waker(w, 3, 8, WAKER_NS), 0);
    put_ended(w, 1000, OFF_CPU_WAKER_THREAD, WAKER_NS);
    put_ended(w, 2000, OFF_CPU_WAKER_THREAD, WAKER_NS);
    assert_int_equal(t.count, 0);
    put_ended(w, 3000, OFF_CPU_WAKER_UNSEEN, 0);
    assert_int_equal(t.count, 1);
    assert_int_equal(t.rows[0].sum.waits, 2);
    assert_int_equal(t.rows[0].waker_ns, WAKER_NS);
    assert_int_equal(put_waker(w, 4, 8, WAKER_NS + 1), 0);
    assert_int_equal(t.rows[1].waker_ns, 0);
    put_ended(w, 4000, OFF_CPU_WAKER_THREAD, WAKER_NS + 1);
    put_ended(w, 5000, OFF_CPU_WAKER_THREAD, WAKER_NS); /* that one is gone */
    wait_sums_flush_all(w);
    assert_int_equal(t.count, 4);
    assert_int_equal(t.rows[2].waker_ns, WAKER_NS + 1);
    assert_int_equal(t.rows[3].waker_ns, 0);
    put_ended(w, 6000, OFF_CPU_WAKER_THREAD, WAKER_NS + 1);
    wait_sums_flush(w, 3);
    assert_int_equal(t.count, 4);
    wait_sums_flush(w, 4); /* whose names may change soon */
    assert_int_equal(t.count, 5);
    assert_int_equal(t.rows[4].waker_ns, WAKER_NS + 1);
    wait_sums_forget(w, 7, 8);
    put_ended(w, 7000, OFF_CPU_WAKER_THREAD, WAKER_NS + 1);
    wait_sums_flush_all(w);
    assert_int_equal(t.rows[5].waker_ns, 0);
}

static void put_part(struct wait_sums *w, uint64_t start_ns, uint64_t end_ns, uint64_t queued_ns, uint8_t flags)
{
    const struct off_cpu_wait wait = {
        .h = {.size_bytes = sizeof(wait), .kind = RECORD_OFF_CPU, .time_ns = end_ns, .pid = 7, .tid = 8},
        .start_ns = start_ns,
        .weight_ns = end_ns - start_ns,
        .queued_ns = queued_ns,
        .count = 1,
        .flags = flags};
    wait_sums_add(w, &wait);
    wait_sums_flush_all(w);
}

#define GOES_ON (OFF_CPU_UNFINISHED | OFF_CPU_SO_FAR)

/* A wait recorded while unfinished counts its total length once, whatever comes in between. */
static void test_unfinished_wait_is_counted_once(void **state)
{
    (void)state;
    struct taken t = {0};
    _cleanup_(wait_sums_freep) struct wait_sums *w = NULL;
    assert_int_equal(wait_sums_new(1 << 20, store_sum, &t, &w), 0);
    put_part(w, 1000, 1500, 0, GOES_ON);
    put_part(w, 1000, 1900, 0, GOES_ON);
    put_part(w, 1000, 1900, 0, GOES_ON); /* nothing more */
    assert_int_equal(t.count, 2);
    put_part(w, 1000, 2000, 150, 0); /* it was woken just before its last record as waiting */
    assert_int_equal(t.count, 3);
    assert_int_equal(t.ns, 1000);
    assert_int_equal(t.rows[2].sum.queued_ns, 100);
    assert_int_equal(t.rows[2].sum.waited_ns, 0);
    put_part(w, 1000, 2010, 0, GOES_ON); /* recorded while it ended: ten too many, but not everything twice */
    assert_int_equal(t.ns, 1010);
    put_part(w, 3000, 3200, 0, GOES_ON); /* the next one, finally in the run queue */
    put_part(w, 3000, 3500, 100, GOES_ON);
    put_part(w, 3000, 3600, 200, OFF_CPU_UNFINISHED);
    assert_int_equal(t.ns, 1610);
    assert_int_equal(t.rows[6].sum.queued_ns, 100);
    put_part(w, 4000, 4100, 0, 0);
    assert_int_equal(t.ns, 1710);
}

static void test_unfinished_wait_without_space_is_emitted_once(void **state)
{
    (void)state;
    struct taken t = {0};
    _cleanup_(wait_sums_freep) struct wait_sums *w = NULL;
    assert_int_equal(wait_sums_new(1, store_sum, &t, &w), 0);
    put_part(w, 1000, 1500, 0, GOES_ON);
    assert_int_equal(t.count, 0);
    put_part(w, 1000, 2000, 0, 0);
    assert_int_equal(t.ns, 1000);
}

static void test_memory_is_bounded(void **state)
{
    (void)state;
    struct taken t = {0};
    _cleanup_(wait_sums_freep) struct wait_sums *w = NULL;
    assert_int_equal(wait_sums_new(1024, store_sum, &t, &w), 0);
    assert_int_equal(put_stack(w, 1, 900), 0);
    for (uint32_t tid = 2; tid < 100; tid++)
        put_stack(w, tid, 900);
    assert_int_equal(put_stack(w, 100, 900), -ENOSPC);
    for (uint32_t tid = 1; tid < 100; tid++)
        put_wait(w, tid, 900, 1000, 0, 0);
    wait_sums_flush_all(w);
    assert_int_equal(t.ns, 99 * 100);
    assert_true(t.count > 90); /* most did not fit */
}

/* A turn without time emits one sum. The next one goes on with the others, so that no thread is left out. */
static void test_turn_without_time_emits_one_sum(void **state)
{
    (void)state;
    struct taken t = {0};
    _cleanup_(wait_sums_freep) struct wait_sums *w = NULL;
    assert_int_equal(wait_sums_new(1 << 20, store_sum, &t, &w), 0);
    for (uint32_t tid = 1; tid <= 3; tid++)
        put_wait(w, tid, 0, 1000, 10, 0); /* a wait and its time in the queue */
    assert_int_equal(wait_sums_pending(w), 6);
    turn_time_begin(0, 0);
    wait_sums_flush_all(w);
    assert_int_equal(t.count, 1);
    assert_int_equal(wait_sums_pending(w), 4);
    put_wait(w, 1, 0, 2000, 10, 0);
    wait_sums_flush_all(w);
    wait_sums_flush_all(w);
    turn_time_end();
    assert_int_equal(t.count, 3);
    assert_int_equal(t.rows[0].tid + t.rows[1].tid + t.rows[2].tid, 1 + 2 + 3);
    wait_sums_flush_all(w);
    assert_int_equal(t.ns, 4 * 100);
    assert_int_equal(wait_sums_pending(w), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_waits_are_summed),
        cmocka_unit_test(test_different_waits_stay_separate),
        cmocka_unit_test(test_user_stack_arrives_later),
        cmocka_unit_test(test_later_user_stacks_are_bounded),
        cmocka_unit_test(test_evicted_stack_flushes_its_waits),
        cmocka_unit_test(test_waits_are_summed_by_waker),
        cmocka_unit_test(test_unfinished_wait_is_counted_once),
        cmocka_unit_test(test_unfinished_wait_without_space_is_emitted_once),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_turn_without_time_emits_one_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
