/* Interpreter frames of a sample: each run replaces the native frame that runs it; where that is not possible, the
 * sample is marked and counted. */
#include "../sample_fixture.h"

static struct stack_record *make_native(struct fixture *f, unsigned end)
{
    struct stack_record *r = make_cpu_sample(f, PROGRAM, 0, 5, end);
    const uint64_t data[] = {0x1101, EVALUATOR, 0x1201, EVALUATOR, 0x1301};
    memcpy(r->data, data, sizeof(data));
    return r;
}

static void test_runs_replace_their_native_frames(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_native(f, UNWIND_END_ENTRY);
    const struct interpreter_entry entries[] = {CODE(2), MARK(0x7010, 1), CODE(4), CODE(6), MARK(0x7110, 3)};
    put_entries(r, entries, 5, INTERPRETER_END_WHOLE);
    assert_string_equal(resolved(f, r), "program+5100 p2 program+5200 p4 p6 program+5300");
    assert_int_equal(sum(&f->losses), 0);
    const struct link_ids ids = {1, 2, 3}; /* follows them in the record */
    memcpy((char *)r + r->h.size_bytes, &ids, sizeof(ids));
    r->h.size_bytes += sizeof(ids);
    r->flags |= STACK_RECORD_LINKED;
    assert_string_equal(resolved(f, r), "program+5100 p2 program+5200 p4 p6 program+5300");
}

static void test_empty_run_keeps_its_native_frame(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_native(f, UNWIND_END_ENTRY);
    const struct interpreter_entry entries[] = {MARK(0x7010, 1), CODE(4), MARK(0x7110, 3)};
    put_entries(r, entries, 3, INTERPRETER_END_WHOLE);
    assert_string_equal(resolved(f, r), "program+5100 _PyEval_EvalFrameDefault program+5200 p4 program+5300");
    assert_int_equal(sum(&f->losses), 0);
}

static void test_evaluator_without_frames_is_counted(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_native(f, UNWIND_END_ENTRY);
    resolved(f, r);
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
    r = make_cpu_sample(f, PROGRAM, 0, 2, UNWIND_END_ENTRY); /* about to enter its first frame */
    r->data[0] = EVALUATOR;
    r->data[1] = 0x1101;
    put_entries(r, NULL, 0, INTERPRETER_END_WHOLE);
    resolved(f, r);
    assert_int_equal(sum(&f->losses), 0);
    r = make_cpu_sample(f, PROGRAM, 0, 3,
                        UNWIND_END_ENTRY); /* it has called something: the state of another thread was read */
    r->data[0] = 0x1201;
    r->data[1] = EVALUATOR;
    r->data[2] = 0x1101;
    put_entries(r, NULL, 0, INTERPRETER_END_WHOLE);
    resolved(f, r);
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
}

static void test_frames_without_a_name_are_counted(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_native(f, UNWIND_END_ENTRY);
    const struct interpreter_entry entries[] = {CODE(2), MARK(0x7010, 1), CODE(5), MARK(0x7110, 3)};
    put_entries(r, entries, 4, INTERPRETER_END_WHOLE);
    assert_string_equal(resolved(f, r), "program+5100 p2 program+5200 [python] program+5300");
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
    assert_int_equal(f->losses.count[LOSS_UNNAMED], 1);
}

/* The native walk ended early; the native frames between the interpreter's are unknown, but the interpreter's frames
 * are known. */
static void test_runs_beyond_the_native_walk_follow_its_end(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_native(f, UNWIND_END_BAD_READ);
    const struct interpreter_entry entries[] = {CODE(2),         MARK(0x7010, 1), CODE(4),
                                                MARK(0x7110, 3), CODE(6),         UNREACHED(0x7210)};
    put_entries(r, entries, 6, INTERPRETER_END_WHOLE);
    assert_string_equal(resolved(f, r), "program+5100 p2 program+5200 p4 program+5300 [stack not readable] p6");
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
    assert_int_equal(f->losses.count[LOSS_TRUNCATED], 1);
}

static void test_truncated_interpreter_walk_ends_the_stack(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_native(f, UNWIND_END_ENTRY);
    const struct interpreter_entry entries[] = {CODE(2), MARK(0x7010, 1), CODE(4), CODE(6)};
    put_entries(r, entries, 4, INTERPRETER_END_TOO_DEEP);
    assert_string_equal(resolved(f, r), "program+5100 p2 program+5200 p4 p6 [interpreter's stack too deep]");
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
    r = make_native(f, UNWIND_END_ENTRY);
    put_entries(r, entries, 0, INTERPRETER_END_BAD_READ);
    assert_string_equal(resolved(f, r), "program+5100 _PyEval_EvalFrameDefault program+5200 "
                                        "_PyEval_EvalFrameDefault program+5300 [interpreter's stack not readable]");
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
}

/* The BPF side's walk places its part, the walk of the copy the rest. */
/* The copy is replaced by frames, as in the records of waits that are kept. */
static void assert_same_without_copy(struct fixture *f, const struct stack_record *r, const char *expected)
{
    const struct stack_record *walked = sample_walk_copy(f->resolver, r);
    assert_int_equal(walked->stack_bytes, 0);
    assert_string_equal(resolved(f, walked), expected);
}

static void test_runs_in_a_copied_stack(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_cpu_sample(f, PROGRAM, 0, 2, UNWIND_END_NO_TABLE);
    r->data[0] = EVALUATOR;
    r->data[1] = 0x1001;
    r->stack_bytes = 64;
    r->h.size_bytes += 64;
    const struct interpreter_entry entries[] = {CODE(2), MARK(0x7050, 0),   CODE(8), UNREACHED(0x6f00),
                                                CODE(4), UNREACHED(0x7108), CODE(6), UNREACHED(0x9000)};
    put_entries(r, entries, 8, INTERPRETER_END_WHOLE);
    /* The run that is in no frame is placed before the next one that is. */
    assert_string_equal(resolved(f, r), "p2 program+5000 program+5100 p8 p4 p6");
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
    assert_same_without_copy(f, r, "p2 program+5000 program+5100 p8 p4 p6");
}

static void set_flags(struct stack_record *r, unsigned flags)
{
    ((struct interpreter_tail *)((char *)r + r->h.size_bytes - sizeof(struct interpreter_tail)))->flags =
        (uint16_t)flags;
}

static void put_counted(struct stack_record *r, const struct interpreter_entry *entries, uint32_t count,
                        enum interpreter_end end)
{
    put_entries(r, entries, count, end);
    set_flags(r, INTERPRETER_TAIL_COUNTED);
}

/* For interpreters that do not report where their evaluators' frames are. */
static void test_counted_frames_replace_evaluators(void **state)
{
    struct fixture *f = *state;
    const struct interpreter_entry entries[] = {CODE(2), MARK(0x7010, 0), CODE(4), CODE(6)}; /* the mark is empty */
    struct stack_record *r = make_native(f, UNWIND_END_ENTRY);
    put_counted(r, entries, 3, INTERPRETER_END_WHOLE);
    assert_string_equal(resolved(f, r), "program+5100 p2 program+5200 p4 program+5300");
    assert_int_equal(sum(&f->losses), 0);
    r = make_native(f, UNWIND_END_ENTRY); /* another interpreter's evaluator on this thread */
    put_counted(r, entries, 1, INTERPRETER_END_WHOLE);
    assert_string_equal(resolved(f, r), "program+5100 p2 program+5200 _PyEval_EvalFrameDefault program+5300");
    assert_int_equal(sum(&f->losses), 0);
    r = make_native(f, UNWIND_END_ENTRY); /* an unnamed one */
    put_counted(r, entries, 4, INTERPRETER_END_WHOLE);
    assert_string_equal(resolved(f, r), "program+5100 _PyEval_EvalFrameDefault program+5200 "
                                        "_PyEval_EvalFrameDefault program+5300 p2 p4 p6");
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
    r = make_native(f, UNWIND_END_BAD_READ); /* they follow the end of the native walk */
    put_counted(r, entries, 4, INTERPRETER_END_WHOLE);
    assert_string_equal(resolved(f, r), "program+5100 p2 program+5200 p4 program+5300 [stack not readable] p6");
}

static void test_evaluator_at_entry_or_exit_has_no_counted_frame(void **state)
{
    struct fixture *f = *state;
    const struct interpreter_entry entries[] = {CODE(2), CODE(4)};
    for (uint32_t frames = 1; frames <= 2; frames++) {
        struct stack_record *r = make_cpu_sample(f, PROGRAM, 0, 3, UNWIND_END_ENTRY);
        const uint64_t data[] = {EVALUATOR, 0x1201, EVALUATOR};
        memcpy(r->data, data, sizeof(data));
        put_counted(r, entries, frames, INTERPRETER_END_WHOLE);
        assert_string_equal(resolved(f, r),
                            frames == 1 ? "_PyEval_EvalFrameDefault program+5200 p2" : "p2 program+5200 p4");
        assert_int_equal(sum(&f->losses), 0);
    }
}

static void test_truncated_counted_frames_end_the_stack(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_native(f, UNWIND_END_ENTRY);
    const struct interpreter_entry entries[] = {CODE(2), CODE(4)};
    put_counted(r, entries, 1, INTERPRETER_END_TOO_DEEP);
    assert_string_equal(resolved(f, r), "program+5100 p2 program+5200 [interpreter's stack too deep]");
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
    r = make_native(f, UNWIND_END_ENTRY);
    put_counted(r, entries, 0, INTERPRETER_END_BAD_READ);
    assert_string_equal(resolved(f, r), "program+5100 _PyEval_EvalFrameDefault program+5200 "
                                        "_PyEval_EvalFrameDefault program+5300 [interpreter's stack not readable]");
}

static void test_invalid_entries(void **state)
{
    struct fixture *f = *state;
    const struct interpreter_entry entries[] = {CODE(2), MARK(0x7010, 1)};
    struct sample s;
    struct stack_record *r = make_native(f, UNWIND_END_ENTRY);
    put_entries(r, entries, 2, INTERPRETER_END_WHOLE);
    struct interpreter_tail *tail = (struct interpreter_tail *)((char *)r + r->h.size_bytes - sizeof(*tail));
    tail->entries = 3; /* would begin among the native frames */
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), -EBADMSG);
    tail->entries = UINT32_MAX;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), -EBADMSG);
    r = make_cpu_sample(f, PROGRAM, 0, 0, UNWIND_END_ENTRY);
    r->flags |= STACK_RECORD_INTERPRETED;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), -EBADMSG);
    assert_int_equal(f->losses.count[LOSS_DECODE], 3);
    r = make_native(f, UNWIND_END_ENTRY);
    const struct interpreter_entry wrong[] = {MARK(1, 70000), CODE(2), MARK(9, 3), CODE(4), MARK(5, 1), CODE(6)};
    put_entries(r, wrong, 6, 77); /* invalid end and order: all frames are kept nevertheless */
    assert_non_null(strstr(resolved(f, r), "p2 "));
}

/* Interpreters are walked one after the other, whatever the call order; frames of another thread's state and truncated
 * ones are not attributed to this one. */
static void test_runs_of_several_interpreters_are_placed_by_call_order(void **state)
{
    struct fixture *f = *state;
    const struct interpreter_entry entries[] = {CODE(4), MARK(0x7310, 3), CODE(8), UNREACHED(0x6000),
                                                CODE(2), MARK(0x7110, 1), CODE(6)};
    struct stack_record *r = make_native(f, UNWIND_END_ENTRY);
    put_entries(r, entries, 6, INTERPRETER_END_WHOLE);
    set_flags(r, INTERPRETER_TAIL_SEVERAL);
    assert_string_equal(resolved(f, r), "program+5100 p2 program+5200 p4 program+5300");
    assert_int_equal(sum(&f->losses), 0);
    r = make_native(f, UNWIND_END_ENTRY);
    put_entries(r, entries, 2, INTERPRETER_END_WHOLE); /* the state of the other one was not found */
    set_flags(r, INTERPRETER_TAIL_SEVERAL);
    assert_string_equal(resolved(f, r), "program+5100 _PyEval_EvalFrameDefault program+5200 p4 program+5300");
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
    r = make_native(f, UNWIND_END_ENTRY);
    put_entries(r, entries, 7, INTERPRETER_END_BAD_READ);
    set_flags(r, INTERPRETER_TAIL_SEVERAL);
    assert_string_equal(resolved(f, r),
                        "program+5100 p2 program+5200 p4 program+5300 [interpreter's stack not readable]");
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
    r = make_cpu_sample(f, PROGRAM, 0, 2, UNWIND_END_NO_TABLE); /* finished from a copy */
    r->data[0] = 0x1301;
    r->data[1] = 0x1001;
    r->stack_bytes = 64;
    r->h.size_bytes += 64;
    const struct interpreter_entry copied[] = {CODE(4),           UNREACHED(0x7108), CODE(2),
                                               UNREACHED(0x7008), CODE(8),           UNREACHED(0x9000)};
    put_entries(r, copied, 6, INTERPRETER_END_WHOLE);
    set_flags(r, INTERPRETER_TAIL_SEVERAL);
    assert_string_equal(resolved(f, r), "program+5300 program+5000 p2 p4");
    assert_int_equal(sum(&f->losses), 0);
    assert_same_without_copy(f, r, "program+5300 program+5000 p2 p4");
}

static void test_counted_frames_of_several_interpreters(void **state)
{
    struct fixture *f = *state;
    const struct interpreter_entry entries[] = {CODE(2), CODE(4)};
    struct stack_record *r = make_native(f, UNWIND_END_ENTRY);
    put_entries(r, entries, 2, INTERPRETER_END_WHOLE);
    set_flags(r, INTERPRETER_TAIL_SEVERAL | INTERPRETER_TAIL_COUNTED);
    assert_string_equal(resolved(f, r), "program+5100 p2 program+5200 p4 program+5300");
    assert_int_equal(sum(&f->losses), 0);
    r = make_native(f, UNWIND_END_ENTRY); /* it is unknown which of the two evaluators runs it */
    put_entries(r, entries, 1, INTERPRETER_END_WHOLE);
    set_flags(r, INTERPRETER_TAIL_SEVERAL | INTERPRETER_TAIL_COUNTED);
    assert_string_equal(resolved(f, r),
                        "program+5100 _PyEval_EvalFrameDefault program+5200 _PyEval_EvalFrameDefault program+5300 p2");
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
    r = make_native(f, UNWIND_END_ENTRY);
    put_entries(r, entries, 0, INTERPRETER_END_SEVERAL);
    set_flags(r, INTERPRETER_TAIL_SEVERAL | INTERPRETER_TAIL_COUNTED);
    assert_string_equal(resolved(f, r),
                        "program+5100 _PyEval_EvalFrameDefault program+5200 _PyEval_EvalFrameDefault program+5300 "
                        "[several interpreters in one thread]");
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_runs_replace_their_native_frames),
        TEST(test_empty_run_keeps_its_native_frame),
        TEST(test_evaluator_without_frames_is_counted),
        TEST(test_frames_without_a_name_are_counted),
        TEST(test_runs_beyond_the_native_walk_follow_its_end),
        TEST(test_truncated_interpreter_walk_ends_the_stack),
        TEST(test_runs_in_a_copied_stack),
        TEST(test_counted_frames_replace_evaluators),
        TEST(test_evaluator_at_entry_or_exit_has_no_counted_frame),
        TEST(test_truncated_counted_frames_end_the_stack),
        TEST(test_invalid_entries),
        TEST(test_runs_of_several_interpreters_are_placed_by_call_order),
        TEST(test_counted_frames_of_several_interpreters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
